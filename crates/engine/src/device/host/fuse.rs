//! From operations to steps, once for each page.

mod choice;

use super::compute;
use super::keys::word;
use super::row_plan;
use super::step::{ColumnRef, Needed, Row, Step, Steps, Values};
use super::write::{Appended, MOVE};
use crate::device::cost;
use crate::device::limits::FOLD_BYTES_MAX;
use crate::program::{
    Comparison, Constant, Escape, FieldType, For, FragmentId, If, Op, PageProgram, Put, Register,
    StageProgram, Type,
};

/// Turns operations to steps.
pub(super) struct Fuse<'a> {
    program: &'a PageProgram,
    stage: &'a StageProgram,
    fragments: &'a [Box<[u8]>],
    /// How often each register is read.
    reads: &'a [u32],
    /// The columns that all steps of the stage read.
    pub(super) needed: Needed,
    steps: Steps,
    /// What stands before this step may not be put together with what comes: it is jumped to.
    target: usize,
    /// Registers that hold what is in a column of texts, and where there.
    loaded: Vec<(Register, Row, u16)>,
}

impl<'a> Fuse<'a> {
    pub(super) fn new(
        program: &'a PageProgram,
        stage: &'a StageProgram,
        fragments: &'a [Box<[u8]>],
        reads: &'a [u32],
    ) -> Fuse<'a> {
        Fuse {
            program,
            stage,
            fragments,
            reads,
            needed: Needed::default(),
            steps: Steps::default(),
            target: 0,
            loaded: Vec::new(),
        }
    }

    /// Makes steps of the operations at the start of `block` that can run as one, and tells how
    /// many they are.
    pub(super) fn as_one(&mut self, block: &[Op]) -> (Steps, usize) {
        self.target = 0;
        self.loaded.clear();
        let mut count = 0;
        for op in block {
            let before = self.steps.lengths();
            // What may be undone begins with a target: nothing before it is put together with it.
            if !self.op(op) {
                self.steps.truncate(before);
                break;
            }
            count += 1;
        }
        (std::mem::take(&mut self.steps), count)
    }

    /// Which of the columns of this kind it is.
    fn index<P: PartialEq>(needed: &mut Vec<P>, place: P) -> u16 {
        let found = needed.iter().position(|other| *other == place);
        let at = found.unwrap_or_else(|| {
            needed.push(place);
            needed.len() - 1
        });
        at as u16
    }

    fn values(&mut self, column: ColumnRef, kind: Type) -> Values {
        match kind {
            Type::Text => Values::Text(Fuse::index(&mut self.needed.texts, column)),
            _ => Values::Int(Fuse::index(&mut self.needed.ints, column)),
        }
    }

    fn spans(&mut self, list: u16) -> u16 {
        Fuse::index(&mut self.needed.spans, list)
    }

    fn push(&mut self, step: Step) -> bool {
        if let Some(written) = step.destination() {
            self.loaded.retain(|(register, row, _)| {
                *register != written
                    && !matches!(row, Row::Item { position, .. } if *position == written)
            });
        }
        self.loaded.extend(step.loaded_text());
        self.steps.list.push(step);
        true
    }

    /// Where the next step will be, which is jumped to.
    fn at(&mut self) -> u32 {
        self.target = self.steps.list.len();
        self.loaded.clear();
        self.target as u32
    }

    /// Puts a text together with its load before it, and the constant between them, and that with
    /// others of the row before them.
    fn text(&mut self, from: Register, escaped: bool) -> bool {
        let list = &mut self.steps.list;
        let (before, constant) = match list[self.target..] {
            [.., Step::Constant { first_move, length }] if length as usize <= MOVE => {
                let constant = self.steps.moves[first_move as usize];
                (list.len() - 1, Some((constant, length)))
            }
            _ => (list.len(), None),
        };
        let is_it = |(register, ..): &&(Register, Row, u16)| *register == from;
        let loaded = self.loaded.iter().find(is_it);
        let is_just_loaded = matches!(
            list[self.target..before],
            [.., step] if step.destination() == Some(from) && loaded.is_some()
        );
        let (row, column) = match loaded {
            Some((_, row, column)) => (*row, *column),
            None if constant.is_some() => (Row::Registers, 0),
            None => return self.push(Step::Text { from, escaped }),
        };
        list.truncate(before - usize::from(is_just_loaded));
        let (constant, length) = constant.unwrap_or(([0; MOVE], 0));
        // Where it is to be put, if it is not there and others read it.
        let register = match (row, is_just_loaded) {
            (Row::Registers, _) => from,
            (_, true) if self.reads[usize::from(from)] > 1 => from,
            _ => nobodys(self.stage),
        };
        let keeps_it = row != Row::Registers && register != nobodys(self.stage);
        let cells = &mut self.steps.cells;
        cells.push(Appended {
            constant,
            length,
            register,
            escaped,
            column,
        });
        if let [
            ..,
            Step::Cells {
                row: last,
                keeps,
                count,
                ..
            },
        ] = &mut list[self.target..]
            && *last == row
            && *count < u16::MAX
        {
            *keeps |= keeps_it;
            *count += 1;
            return true;
        }
        let first = (cells.len() - 1) as u32;
        self.push(Step::Cells {
            row,
            keeps: keeps_it,
            count: 1,
            first,
        })
    }

    /// Appends the steps of an operation, if it is one of those that run as one.
    fn op(&mut self, op: &Op) -> bool {
        let step = match op {
            Op::Field(op) => {
                let FieldType::Scalar(kind) = self.program.fields[usize::from(op.field)].kind
                else {
                    unreachable!("lists are read item by item");
                };
                let (field, column) = (op.field, None);
                let values = self.values(ColumnRef { field, column }, kind);
                Step::Field { to: op.to, values }
            }
            Op::Length(op) => Step::Length {
                to: op.to,
                spans: self.spans(op.field),
            },
            Op::Item(op) => {
                let FieldType::List(columns) = &self.program.fields[usize::from(op.list)].kind
                else {
                    unreachable!("only lists have items");
                };
                let kind = columns[usize::from(op.column)].1;
                let (field, column) = (op.list, Some(op.column));
                Step::Item {
                    to: op.to,
                    position: op.position,
                    spans: self.spans(op.list),
                    values: self.values(ColumnRef { field, column }, kind),
                }
            }
            Op::Compare(comparison, operands) => {
                let (to, left, right) = (operands.to, operands.left, operands.right);
                let wanted = *comparison == Comparison::Equal;
                match self.stage.registers[usize::from(left)] {
                    Type::Int | Type::Bool => Step::Compare {
                        comparison: *comparison,
                        to,
                        left,
                        right,
                    },
                    Type::Text if wanted || *comparison == Comparison::NotEqual => {
                        self.equal(to, left, right, wanted)
                    }
                    _ => self.compute(op, to),
                }
            }
            Op::Fragment(fragment) => return self.fragment(*fragment),
            Op::Put(put) => {
                let Put { from, escape } = *put;
                match (self.stage.registers[usize::from(from)], escape) {
                    (Type::Text, Escape::None | Escape::Html) => {
                        return self.text(from, escape == Escape::Html);
                    }
                    (Type::Int, _) => Step::Int { from },
                    (kind, _) => Step::Print { put: *put, kind },
                }
            }
            Op::If(op) => return self.choice(op) || self.branch(op),
            Op::For(op) if op.choices.is_empty() => return self.looping(op),
            Op::Status(status) => Step::Status(*status),
            Op::File(path) => Step::File(*path),
            Op::SessionCreate(user) => Step::Session { user: Some(*user) },
            Op::SessionDestroy => Step::Session { user: None },
            Op::Finish => Step::Finish,
            _ => match compute::destination(op) {
                Some(to) => self.compute(op, to),
                None => return false,
            },
        };
        self.push(step)
    }

    /// Appends the steps of a branch, if they run as one.
    fn branch(&mut self, op: &If) -> bool {
        let branch = self.at();
        self.push(Step::Jump { to: 0 });
        if !op.then.iter().all(|op| self.op(op)) {
            return false;
        }
        let Some(otherwise) = self.otherwise(&op.otherwise) else {
            return false;
        };
        self.steps.list[branch as usize] = Step::Branch {
            condition: op.condition,
            otherwise,
        };
        true
    }

    /// Appends the steps of a loop, if they run as one.
    fn looping(&mut self, op: &For) -> bool {
        let begin = self.at();
        self.push(Step::Jump { to: 0 });
        let before = self.steps.lengths();
        if !op.body.iter().all(|op| self.op(op)) {
            return false;
        }
        let rows = row_plan::planned(op, &self.steps, before, self.reads);
        match &rows {
            Some((_, parts)) => {
                let [list, cells, moves, ..] = before;
                self.steps.list.truncate(list);
                self.steps.cells.truncate(cells);
                self.steps.moves.truncate(moves);
                self.steps.parts.extend_from_slice(parts);
            }
            None => drop(self.push(Step::Next {
                position: op.position,
                index: op.index,
                length: op.length,
                body: begin + 1,
            })),
        }
        let parts_end = self.steps.parts.len();
        let Some(none) = self.otherwise(&op.otherwise) else {
            return false;
        };
        self.steps.list[begin as usize] = match rows {
            Some((spans, parts)) => Step::Rows {
                count: op.count,
                spans,
                parts: parts.len() as u16,
                first: (parts_end - parts.len()) as u32,
                none,
            },
            None => Step::Begin {
                count: op.count,
                position: op.position,
                index: op.index,
                length: op.length,
                none,
            },
        };
        true
    }

    /// Appends the steps taken instead of those before, which jump over them, if they run as one;
    /// gives where they begin.
    fn otherwise(&mut self, block: &[Op]) -> Option<u32> {
        let end = self.at();
        if block.is_empty() {
            return Some(end);
        }
        self.push(Step::Jump { to: 0 });
        if !block.iter().all(|op| self.op(op)) {
            return None;
        }
        self.steps.list[end as usize] = Step::Jump { to: self.at() };
        Some(end + 1)
    }

    fn equal(&self, to: Register, left: Register, right: Register, wanted: bool) -> Step {
        for (text, other) in [(left, right), (right, left)] {
            if let Some(constant) = self.constant(other)
                && (1..=8).contains(&constant.len())
            {
                return Step::Is {
                    wanted,
                    to,
                    text,
                    length: constant.len() as u8,
                    word: word(constant),
                };
            }
        }
        Step::Equal {
            to,
            left,
            right,
            wanted,
        }
    }

    /// The text that a register holds for every lane from the start, if it does.
    fn constant(&self, register: Register) -> Option<&'a [u8]> {
        let mut constants = self.stage.constants.iter();
        match constants.find(|(of, _)| *of == register)?.1 {
            Constant::Text { offset, length } => {
                Some(&self.program.texts[offset as usize..][..length as usize])
            }
            _ => None,
        }
    }

    fn compute(&mut self, op: &Op, to: Register) -> Step {
        let reads = cost::may_read(op, |register| self.stage.registers[usize::from(register)]);
        self.steps.ops.push(op.clone());
        let op = (self.steps.ops.len() - 1) as u32;
        match reads {
            true => Step::Read { op, to },
            false => Step::Compute { op, to },
        }
    }

    /// Takes back the constant that was appended last, if it is of no more than `most` bytes, to be
    /// put together with what comes.
    fn short_constant(&mut self, most: usize) -> Vec<u8> {
        match self.steps.list[self.target..] {
            [.., Step::Constant { first_move, length }] if length as usize <= most => {
                self.steps.list.pop();
                let constant = self.steps.moves.pop();
                debug_assert_eq!(first_move as usize, self.steps.moves.len());
                constant.map_or(Vec::new(), |constant| constant[..length as usize].to_vec())
            }
            _ => Vec::new(),
        }
    }

    fn fragment(&mut self, fragment: FragmentId) -> bool {
        let text = &self.fragments[fragment as usize];
        let length = text.len();
        if text.is_empty() {
            return true;
        }
        if length > FOLD_BYTES_MAX {
            return self.push(Step::Fragment { fragment, length });
        }
        let moves = &mut self.steps.moves;
        let first_move = moves.len() as u32;
        for part in text.chunks(MOVE) {
            let mut padded = [0; MOVE];
            padded[..part.len()].copy_from_slice(part);
            moves.push(padded);
        }
        self.push(Step::Constant {
            first_move,
            length: length as u32,
        })
    }
}

/// The register behind all of the stage's: what is put there is read by nobody. The compiler leaves
/// room for it.
pub(super) fn nobodys(stage: &StageProgram) -> Register {
    stage.registers.len() as Register
}
