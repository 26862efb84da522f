//! A strip under way: its program run part by part, each for all selected lanes.
//!
//! Which parts there are is planned (`plan`): what runs as one (`walk`), or one operation (`texts`,
//! `control`, `output`).

use super::plan::{Part, Plan};
use super::positions::Positions;
use super::step::{Columns, Steps};
use super::strip::{Lanes, Pack, Registers, Selection};
use super::walk::{Turns, Walk};
use super::write::Regions;
use crate::cohort::{Arena, Queries, View};
use crate::device::cost;
use crate::program::{Conversion, Op, PageProgram, Register, StageProgram, Type};
use rhythm_protocol::scan::Level;

/// A strip under way.
pub(super) struct Strip<'a> {
    pub(super) program: &'a PageProgram,
    pub(super) stage: &'a StageProgram,
    pub(super) plan: &'a Plan,
    /// The columns that the plan needs.
    pub(super) columns: &'a Columns<'a>,
    pub(super) arena: &'a mut Arena,
    pub(super) queries: &'a mut Queries,
    pub(super) headers: &'a mut Vec<(u32, u16, View)>,
    pub(super) registers: &'a mut Registers,
    pub(super) lanes: &'a mut Lanes,
    pub(super) regions: Regions<'a>,
    /// Selections not in use, for reuse.
    pub(super) selections: &'a mut Vec<Selection>,
    /// What choices of loops left, not in use, for reuse.
    pub(super) positions: &'a mut Vec<Positions>,
    /// Where a lane's text is made, for reuse.
    pub(super) made: &'a mut Vec<u8>,
    pub(super) level: Level,
}

impl Strip<'_> {
    /// Runs the stage for the strip's first `count` lanes.
    pub(super) fn run(mut self, count: usize) {
        for (register, constant) in &self.stage.constants {
            self.registers.column_mut(*register)[..count].fill(constant.pack());
        }
        let mut selection = self.selections.pop().unwrap_or_default();
        selection.clear();
        selection.extend((0..count).map(|lane| lane as u8));
        let plan = self.plan;
        self.block(&plan.parts, &mut selection);
        self.selections.push(selection);
    }

    /// Runs a block for the selection, and takes the lanes that ended out of it.
    pub(super) fn block(&mut self, block: &[Part], selection: &mut Selection) {
        for part in block {
            if selection.is_empty() {
                break;
            }
            let ended = self.lanes.ended;
            match part {
                Part::Steps(steps) => self.walk(steps, selection, None),
                Part::Op(op) => self.op(op, selection),
                Part::Branch(branch) => self.branch(branch, selection),
                Part::Loop(of) => self.repeat(of, selection),
            }
            if self.lanes.ended != ended {
                selection.retain(|lane| self.lanes.runs(*lane));
            }
        }
    }

    pub(super) fn walk(&mut self, steps: &Steps, selection: &[u8], turns: Option<Turns<'_>>) {
        self.level.run(Walk {
            steps,
            turns,
            columns: self.columns,
            selection,
            program: self.program,
            stage: self.stage,
            arena: self.arena,
            registers: self.registers,
            lanes: self.lanes,
            regions: &mut self.regions,
            made: self.made,
        });
    }

    /// Runs an operation that makes texts or asks.
    fn op(&mut self, op: &Op, selection: &mut Selection) {
        if cost::may_read(op, |register| self.kind(register)) {
            let ended = self.lanes.ended;
            self.charge_reads(op, selection);
            if self.lanes.ended != ended {
                selection.retain(|lane| self.lanes.runs(*lane));
            }
        }
        match op {
            Op::Convert(Conversion::ToText, op) => self.make_texts(op, selection),
            Op::Concat(op) => self.concat(op, selection),
            Op::Append(op) => self.append(op, selection),
            Op::Text(function, op) => self.text_function(*function, op, selection),
            Op::Replace(op) => self.replace(op, selection),
            Op::Format(op) => self.format(op, selection),
            Op::Query(op) => self.query(op, selection),
            Op::Header(op) => self.header(op, selection),
            _ => unreachable!("all others run as one, or have parts"),
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
}
