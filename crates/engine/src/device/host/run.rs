//! A strip under way: its program run part by part, each for all selected lanes.
//!
//! A part is what can run as one (`fuse`, `walk`), or one operation: `texts`, `control`, `output`.

use super::fuse::Fuse;
use super::kept::Kept;
use super::step::Steps;
use super::strip::{Cell, Lanes, Registers, Selection};
use super::walk::Walk;
use super::write::Regions;
use crate::cohort::{Arena, Column, Requests, View};
use crate::program::{Conversion, Op, PageProgram, Register, StageProgram, Type};
use rhythm_protocol::scan::Level;

/// A strip under way.
pub(super) struct Run<'a> {
    pub(super) program: &'a PageProgram,
    pub(super) stage: &'a StageProgram,
    pub(super) fragments: &'a [Box<[u8]>],
    pub(super) fields: &'a [Column],
    pub(super) arena: &'a mut Arena,
    pub(super) requests: &'a mut Requests,
    pub(super) headers: &'a mut Vec<(u32, u16, View)>,
    pub(super) registers: &'a mut Registers,
    pub(super) lanes: &'a mut Lanes,
    pub(super) regions: Regions<'a>,
    /// Memory for operations that run as one.
    pub(super) steps: &'a mut Steps<'static>,
    /// Selections not in use, for reuse.
    pub(super) selections: &'a mut Vec<Selection>,
    /// What filters of loops kept, not in use, for reuse.
    pub(super) kept: &'a mut Vec<Kept>,
    pub(super) level: Level,
}

impl<'a> Run<'a> {
    /// Runs the stage for the strip's first `count` lanes.
    pub(super) fn run(mut self, count: usize) {
        for (register, constant) in &self.stage.constants {
            self.registers.column_mut(*register)[..count].fill(constant.pack());
        }
        let mut selection = self.selections.pop().unwrap_or_default();
        selection.clear();
        selection.extend((0..count).map(|lane| lane as u8));
        let stage = self.stage;
        self.block(&stage.body, &mut selection);
        self.selections.push(selection);
    }

    /// Runs a block for the selection, and takes the lanes that ended out of it.
    pub(super) fn block(&mut self, block: &'a [Op], selection: &mut Selection) {
        let mut rest = block;
        while let [op, ..] = rest
            && !selection.is_empty()
        {
            let ended = self.lanes.ended;
            let mut done = self.fused(rest, selection);
            if done == 0 {
                self.op(op, selection);
                done = 1;
            }
            rest = &rest[done..];
            if self.lanes.ended != ended {
                selection.retain(|lane| self.lanes.runs(*lane));
            }
        }
    }

    /// Runs an operation that makes texts or asks, or a block with such an operation in it.
    fn op(&mut self, op: &'a Op, selection: &Selection) {
        match op {
            Op::Convert(Conversion::ToText, op) => self.make_texts(op, selection),
            Op::Concat(op) => self.concat(op, selection),
            Op::Text(function, op) => self.text_function(*function, op, selection),
            Op::Replace(op) => self.replace(op, selection),
            Op::If(op) => self.branch(op, selection),
            Op::For(op) => self.repeat(op, selection),
            Op::Request(op) => self.request(op, selection),
            Op::Header(op) => self.header(op, selection),
            _ => unreachable!("all others run as one"),
        }
    }

    pub(super) fn kind(&self, register: Register) -> Type {
        self.stage.registers[usize::from(register)]
    }

    pub(super) fn selection(&mut self) -> Selection {
        let mut selection = self.selections.pop().unwrap_or_default();
        selection.clear();
        selection
    }

    /// A register's text; it was checked where it entered the cohort.
    #[inline]
    pub(super) fn text(&self, register: Register, lane: u8) -> &str {
        std::str::from_utf8(self.arena.get(self.registers.view(register, lane)))
            .expect("texts are checked where they enter a cohort")
    }

    /// Runs the operations at the start of `block` that can run as one, and gives how many they
    /// are.
    fn fused(&mut self, block: &'a [Op], selection: &Selection) -> usize {
        let mut fuse = Fuse {
            steps: std::mem::take(self.steps).reuse(),
            program: self.program,
            stage: self.stage,
            fragments: self.fragments,
            fields: self.fields,
            target: 0,
        };
        let mut count = 0;
        for op in block {
            // What one operation has begun is not put together with others, should it be undone.
            let steps = fuse.steps.list.len();
            if matches!(op, Op::If(_) | Op::For(_)) {
                fuse.at();
            }
            if !fuse.op(op) {
                fuse.steps.list.truncate(steps);
                break;
            }
            count += 1;
        }
        if count > 0 {
            self.level.run(Walk {
                steps: &fuse.steps,
                selection,
                program: fuse.program,
                stage: fuse.stage,
                arena: self.arena,
                registers: self.registers,
                lanes: self.lanes,
                regions: &mut self.regions,
            });
        }
        *self.steps = fuse.steps.reuse();
        count
    }
}
