//! A strip under way: its program run operation by operation, each for all selected lanes.
//!
//! What each operation does is in a file by family: `load`, `compute`, `texts`, `control`,
//! `output`.

use super::control::Kept;
use super::strip::{Cell, Lanes, Registers, Selection};
use super::write::{Pieces, Regions};
use crate::cohort::{Arena, Column, LaneError, Requests, View};
use crate::program::{Op, PageProgram, Register, StageProgram, Type};
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
    /// Memory for what is to be appended.
    pub(super) pieces: &'a mut Pieces,
    /// Selections not in use, for reuse.
    pub(super) selections: &'a mut Vec<Selection>,
    /// What filters of loops kept, not in use, for reuse.
    pub(super) kept: &'a mut Vec<Kept>,
    pub(super) level: Level,
}

impl Run<'_> {
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
    pub(super) fn block(&mut self, block: &[Op], selection: &mut Selection) {
        let mut rest = block;
        while let [op, ..] = rest
            && !selection.is_empty()
        {
            let ended = self.lanes.ended;
            let mut done = self.append(rest, selection);
            if done == 0 {
                self.step(op, selection);
                done = 1;
            }
            rest = &rest[done..];
            if self.lanes.ended != ended {
                selection.retain(|lane| self.lanes.runs(*lane));
            }
        }
    }

    fn step(&mut self, op: &Op, selection: &Selection) {
        match op {
            Op::Copy(op) => self.copy(op, selection),
            Op::Field(op) => self.field(op, selection),
            Op::Length(op) => self.length(op, selection),
            Op::Item(op) => self.item(op, selection),
            Op::ConstantItem(op) => self.constant_item(op, selection),
            Op::Arithmetic(operator, op) => self.arithmetic(*operator, op, selection),
            Op::Negate(op) => self.negate(op, selection),
            Op::Absolute(op) => self.absolute(op, selection),
            Op::Compare(comparison, op) => self.compare(*comparison, op, selection),
            Op::Not(op) => self.not(op, selection),
            Op::Truth(op) => self.truth(op, selection),
            Op::Convert(conversion, op) => self.convert(*conversion, op, selection),
            Op::Concat(op) => self.concat(op, selection),
            Op::Text(function, op) => self.text_function(*function, op, selection),
            Op::Replace(op) => self.replace(op, selection),
            Op::TextTest(test, op) => self.text_test(*test, op, selection),
            Op::TextLength(op) => self.text_length(op, selection),
            Op::If(op) => self.branch(op, selection),
            Op::For(op) => self.repeat(op, selection),
            Op::Fragment(_) => unreachable!("fragments are always appended as pieces"),
            Op::Put(op) => self.put(op, selection),
            Op::Request(op) => self.request(op, selection),
            Op::Status(status) => self.status(*status, selection),
            Op::Header(op) => self.header(op, selection),
            Op::File(path) => self.file(*path, selection),
            Op::SessionCreate(user) => self.session_create(*user, selection),
            Op::SessionDestroy => self.session_destroy(selection),
            Op::Finish => self.finish(selection),
        }
    }

    /// Computes a value for each selected lane, or fails it.
    #[inline(always)]
    pub(super) fn each<C: Cell>(
        &mut self,
        selection: &Selection,
        to: Register,
        value: impl Fn(&Self, u8) -> Result<C, LaneError>,
    ) {
        for &lane in selection {
            match value(self, lane) {
                Ok(cell) => self.registers.set(to, lane, cell),
                Err(error) => self.lanes.fail(lane, error),
            }
        }
    }

    /// The lane's index in the cohort.
    #[inline]
    pub(super) fn index(&self, lane: u8) -> usize {
        self.lanes.index[usize::from(lane)] as usize
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
