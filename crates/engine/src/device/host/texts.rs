//! Operations on texts, and how texts are made.

use super::blocks::Strip;
use super::md5;
use super::strip::{STRIP, Selection, unpack};
use super::write::print;
use crate::cohort::{Argument, LaneError, View};
use crate::device::functions::{self, Made};
use crate::device::{cost, formatting};
use crate::program::{Concat, Format, Op, Register, Replace, TextFunction, Type, Unary};

impl Strip<'_> {
    /// Charges the selected lanes for the texts that an operation looks through.
    pub(super) fn charge_reads(&mut self, op: &Op, selection: &Selection) {
        for &lane in selection {
            let charge = cost::read(op, |text| self.registers.view(text, lane).length as usize);
            self.lanes.read(lane, charge);
        }
    }

    pub(super) fn concat(&mut self, op: &Concat, selection: &Selection) {
        for &lane in selection {
            let length: usize = (op.parts)
                .iter()
                .map(|part| self.registers.view(*part, lane).length as usize)
                .sum();
            if !self.lanes.charge(lane, length) {
                continue;
            }
            if !self.arena.reserve(length) {
                self.lanes.fail(lane, LaneError::ArenaFull);
                continue;
            }
            let view = self.arena.push_with(|arena| {
                for part in &op.parts {
                    let View { offset, length } = self.registers.view(*part, lane);
                    arena.extend_from_within(offset as usize..(offset + length) as usize);
                }
            });
            self.registers.set(op.to, lane, view);
        }
    }

    /// What a loop puts together grows where it lies.
    pub(super) fn append(&mut self, op: &Concat, selection: &Selection) {
        for &lane in selection {
            let registers = &self.registers;
            let parts = op.parts.iter().map(|part| registers.view(*part, lane));
            let more = parts.clone().map(|part| part.length as usize).sum();
            if !self.lanes.charge(lane, more) {
                continue;
            }
            match self.arena.append(registers.view(op.to, lane), parts) {
                Some(text) => self.registers.set(op.to, lane, text),
                None => self.lanes.fail(lane, LaneError::ArenaFull),
            }
        }
    }

    pub(super) fn text_function(
        &mut self,
        function: TextFunction,
        op: &Unary,
        selection: &Selection,
    ) {
        if function == TextFunction::Md5 {
            return self.digests(op, selection);
        }
        self.each_made(selection, op.to, |strip, lane, made| {
            let text = strip.text(op.from, lane);
            Ok(match functions::text(function, text, made) {
                Made::New => None,
                Made::Part(part) => Some(View {
                    offset: strip.registers.view(op.from, lane).offset + part.start as u32,
                    length: part.len() as u32,
                }),
            })
        });
    }

    /// MD5 for all lanes at once.
    fn digests(&mut self, op: &Unary, selection: &Selection) {
        let mut digests = [[0; 32]; STRIP];
        {
            let texts = selection
                .iter()
                .map(|lane| self.arena.get(self.registers.view(op.from, *lane)));
            md5::hex_digests(texts, &mut digests, self.level);
        }
        for (&lane, digest) in selection.iter().zip(&digests) {
            self.keep(lane, op.to, digest);
        }
    }

    pub(super) fn replace(&mut self, op: &Replace, selection: &Selection) {
        self.each_made(selection, op.to, |strip, lane, made| {
            let [from, old, new] = [op.from, op.old, op.new].map(|part| strip.text(part, lane));
            let length = functions::replaced_length(from, old, new);
            if length > strip.lanes.text_left[usize::from(lane)] {
                return Err(LaneError::TooMuchText);
            }
            functions::replace(from, old, new, made);
            Ok(None)
        });
    }

    /// Texts of several values.
    pub(super) fn format(&mut self, op: &Format, selection: &Selection) {
        self.each_made(selection, op.to, |strip, lane, made| {
            let mut from = [Argument::Int(0); Format::OPERANDS_MAX];
            for (to, register) in from.iter_mut().zip(&op.from) {
                let kind = strip.kind(*register);
                *to = (strip.registers).argument(*register, lane, kind, strip.arena);
            }
            let room = strip.lanes.text_left[usize::from(lane)];
            formatting::format(op.how, &from[..op.from.len()], room, made)?;
            Ok(None)
        });
    }

    /// Numbers and truth values as texts.
    pub(super) fn make_texts(&mut self, op: &Unary, selection: &Selection) {
        let kind = self.kind(op.from);
        self.each_made(selection, op.to, |strip, lane, made| {
            let cell = strip.registers.column(op.from)[usize::from(lane)];
            if kind == Type::Text {
                return Ok(Some(unpack(cell)));
            }
            print(kind, cell, made);
            Ok(None)
        });
    }

    /// Makes a text for each selected lane: `make` gives a view that exists already, or appends to
    /// its buffer.
    pub(super) fn each_made(
        &mut self,
        selection: &Selection,
        to: Register,
        make: impl Fn(&mut Self, u8, &mut Vec<u8>) -> Result<Option<View>, LaneError>,
    ) {
        let mut made = std::mem::take(self.made);
        for &lane in selection {
            made.clear();
            match make(self, lane, &mut made) {
                Ok(Some(view)) => self.registers.set(to, lane, view),
                Ok(None) => self.keep(lane, to, &made),
                Err(error) => self.lanes.fail(lane, error),
            }
        }
        *self.made = made;
    }

    /// Stores a text made for a lane, if it may make that much.
    #[inline]
    fn keep(&mut self, lane: u8, to: Register, made: &[u8]) {
        if !self.lanes.charge(lane, made.len()) {
            return;
        }
        if self.arena.reserve(made.len()) {
            let view = self.arena.push(made);
            self.registers.set(to, lane, view);
        } else {
            self.lanes.fail(lane, LaneError::ArenaFull);
        }
    }
}
