//! Operations that answer: output, requests, and what goes into an answer's head.

use super::run::Run;
use super::strip::{Fate, Selection, unpack};
use super::texts::print;
use crate::cohort::{Argument, LaneError, SessionChange};
use crate::device::functions;
use crate::program::{Escape, Header, Op, Put, Register, Request, Type};

impl Run<'_> {
    /// Runs the operations at the start of `block` that append or load as one, and gives how many
    /// they are: first loads what is loaded, then appends for each lane all there is to append.
    ///
    /// It stops where the order would matter: before an operation of another kind, a load for which
    /// a lane fails, and a load into a register that is still to be put.
    pub(super) fn append(&mut self, block: &[Op], selection: &Selection) -> usize {
        let mut pieces = std::mem::take(self.pieces);
        pieces.clear();
        let is_next = |op: &Op| match op {
            Op::Fragment(fragment) => {
                pieces.push_fragment(*fragment, &self.fragments[*fragment as usize]);
                true
            }
            Op::Put(Put { from, escape }) => match (self.kind(*from), escape) {
                (Type::Text, Escape::None) => {
                    pieces.push_text(*from, false);
                    true
                }
                (Type::Text, Escape::Html) => {
                    pieces.push_text(*from, true);
                    true
                }
                (Type::Int, _) => {
                    pieces.push_int(*from);
                    true
                }
                _ => false,
            },
            Op::Item(op) if !pieces.read(op.to) && op.to != op.position => {
                self.load_items(op, selection)
            }
            Op::Field(op) if !pieces.read(op.to) => {
                self.field(op, selection);
                true
            }
            _ => false,
        };
        let count = block.iter().map(is_next).take_while(|is| *is).count();
        if !pieces.is_empty() {
            self.regions.append_pieces(
                self.lanes,
                selection,
                &pieces,
                self.registers,
                self.arena,
                self.level,
            );
        }
        *self.pieces = pieces;
        count
    }

    /// Output in a form that is seldom wanted, and so made text by text.
    pub(super) fn put(&mut self, op: &Put, selection: &Selection) {
        let cells = self.registers.column(op.from);
        let kind = self.kind(op.from);
        let mut text = Vec::with_capacity(32);
        for &lane in selection {
            text.clear();
            let cell = cells[usize::from(lane)];
            match kind {
                Type::Text => functions::escape(op.escape, self.arena.get(unpack(cell)), &mut text),
                _ => print(kind, cell, &mut text),
            }
            self.regions.append(self.lanes, lane, &text);
        }
    }

    pub(super) fn request(&mut self, op: &Request, selection: &Selection) {
        let call = self.stage.call.expect("a stage that asks ends with a call");
        let charged = self.program.calls[call].form.charge();
        for &lane in selection {
            let (registers, arena) = (&*self.registers, &*self.arena);
            let kinds = &self.stage.registers;
            let arguments = (op.arguments.iter()).map(|&from| match kinds[usize::from(from)] {
                Type::Text => Argument::Text(arena.get(registers.view(from, lane))),
                Type::Int => Argument::Int(registers.int(from, lane)),
                Type::Float => Argument::Float(registers.float(from, lane)),
                Type::Bool => Argument::Bool(registers.bool(from, lane)),
            });
            let index = self.lanes.index[usize::from(lane)];
            let charge = charged.of(arguments.clone());
            if self.lanes.charge(lane, charge) && !self.requests.push(index, arguments) {
                self.lanes.fail(lane, LaneError::TooLarge);
            }
        }
    }

    pub(super) fn status(&mut self, status: u16, selection: &Selection) {
        for &lane in selection {
            self.lanes.answer[usize::from(lane)].status = status;
        }
    }

    pub(super) fn header(&mut self, op: &Header, selection: &Selection) {
        for &lane in selection {
            let value = self.registers.view(op.value, lane);
            self.headers
                .push((self.lanes.index[usize::from(lane)], op.name, value));
        }
    }

    pub(super) fn file(&mut self, path: Register, selection: &Selection) {
        for &lane in selection {
            let path = self.registers.view(path, lane);
            self.lanes.answer[usize::from(lane)].file = Some(path);
        }
    }

    pub(super) fn session_create(&mut self, user: Register, selection: &Selection) {
        for &lane in selection {
            let user = self.registers.int(user, lane);
            self.lanes.answer[usize::from(lane)].session = SessionChange::Create(user);
        }
    }

    pub(super) fn session_destroy(&mut self, selection: &Selection) {
        for &lane in selection {
            self.lanes.answer[usize::from(lane)].session = SessionChange::Destroy;
        }
    }

    pub(super) fn finish(&mut self, selection: &Selection) {
        for &lane in selection {
            self.lanes.end(lane, Fate::Finished);
        }
    }
}
