//! Operations that load registers: from registers, fields, lists and tables.

use super::run::Run;
use super::strip::{Cell, STRIP, Selection};
use crate::cohort::{Column, LaneError, Span};
use crate::program::{ConstantItem, Item, Load, Unary};

impl Run<'_> {
    pub(super) fn copy(&mut self, op: &Unary, selection: &Selection) {
        self.each(selection, op.to, |run, lane| {
            Ok(run.registers.column(op.from)[usize::from(lane)])
        });
    }

    pub(super) fn field(&mut self, op: &Load, selection: &Selection) {
        fn copy<C: Cell>(
            values: &[C],
            index: &[u32; STRIP],
            selection: &[u8],
            to: &mut [u64; STRIP],
        ) {
            for &lane in selection {
                to[usize::from(lane)] = values[index[usize::from(lane)] as usize].pack();
            }
        }
        let to = self.registers.column_mut(op.to);
        match &self.fields[usize::from(op.field)] {
            Column::Text(views) => copy(views, &self.lanes.index, selection, to),
            Column::Int(values) => copy(values, &self.lanes.index, selection, to),
            Column::List(_) => unreachable!("lists are read item by item"),
        }
    }

    pub(super) fn length(&mut self, op: &Load, selection: &Selection) {
        let spans = &self.fields[usize::from(op.field)].list().spans;
        self.each(selection, op.to, |run, lane| {
            Ok(i64::from(spans[run.index(lane)].length))
        });
    }

    pub(super) fn item(&mut self, op: &Item, selection: &Selection) {
        let spans = &self.fields[usize::from(op.list)].list().spans;
        for &lane in selection {
            let length = spans[self.index(lane)].length;
            if !(0..i64::from(length)).contains(&self.registers.int(op.position, lane)) {
                self.lanes.fail(lane, LaneError::OutOfRange);
            }
        }
        self.load_items(op, selection);
    }

    /// Loads the items of lanes whose position is within their list, and tells whether all were.
    pub(super) fn load_items(&mut self, op: &Item, selection: &Selection) -> bool {
        fn pick<C: Cell>(
            values: &[C],
            spans: &[Span],
            index: &[u32; STRIP],
            selection: &[u8],
            to: &mut [u64; STRIP],
            positions: &[u64; STRIP],
        ) -> bool {
            let mut all = true;
            for &lane in selection {
                let own = usize::from(lane);
                let span = spans[index[own] as usize];
                // A negative position is a large one without its sign.
                if positions[own] < u64::from(span.length) {
                    to[own] = values[span.start as usize + positions[own] as usize].pack();
                } else {
                    all = false;
                }
            }
            all
        }
        let list = self.fields[usize::from(op.list)].list();
        let (spans, index) = (&list.spans, &self.lanes.index);
        (self.registers).with(op.to, op.position, |to, positions| {
            match &list.columns[usize::from(op.column)] {
                Column::Text(views) => pick(views, spans, index, selection, to, positions),
                Column::Int(values) => pick(values, spans, index, selection, to, positions),
                Column::List(_) => unreachable!("records have no lists"),
            }
        })
    }

    pub(super) fn constant_item(&mut self, op: &ConstantItem, selection: &Selection) {
        let table = &self.program.tables[usize::from(op.table)];
        self.each(selection, op.to, |run, lane| {
            let at = usize::try_from(run.registers.int(op.position, lane)).ok();
            let item = at.and_then(|at| table.get(at));
            Ok(item.ok_or(LaneError::OutOfRange)?.pack())
        });
    }
}
