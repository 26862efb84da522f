//! From operations to steps, once a strip.

use super::compute;
use super::step::{Row, Step, Steps, Values};
use super::write::{Appended, MOVE};
use crate::cohort::Column;
use crate::device::limits::FOLD_BYTES_MAX;
use crate::program::{
    Comparison, Escape, FragmentId, Op, PageProgram, Put, Register, StageProgram, Type,
};

/// Turns operations to steps.
pub(super) struct Fuse<'a> {
    pub(super) steps: Steps<'a>,
    pub(super) program: &'a PageProgram,
    pub(super) stage: &'a StageProgram,
    pub(super) fragments: &'a [Box<[u8]>],
    pub(super) fields: &'a [Column],
    /// What stands before this step may not be put together with what comes: it is jumped to.
    pub(super) target: usize,
}

impl<'a> Fuse<'a> {
    fn push(&mut self, step: Step<'a>) -> bool {
        self.steps.list.push(step);
        true
    }

    /// Where the next step will be, which is jumped to.
    pub(super) fn at(&mut self) -> u32 {
        self.target = self.steps.list.len();
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
        let (row, views) = match list[self.target..before] {
            [
                ..,
                Step::Field {
                    to,
                    values: Values::Text(views),
                },
            ] if to == from => (Row::Fields, views),
            [
                ..,
                Step::Item {
                    to,
                    position,
                    spans,
                    values: Values::Text(views),
                },
            ] if to == from && to != position => (Row::Item { position, spans }, views),
            _ if constant.is_some() => (Row::Registers, &[][..]),
            _ => return self.push(Step::Text { from, escaped }),
        };
        let loaded = usize::from(!matches!(row, Row::Registers));
        list.truncate(before - loaded);
        let (constant, length) = constant.unwrap_or(([0; MOVE], 0));
        let cells = &mut self.steps.cells;
        cells.push(Appended {
            constant,
            length,
            register: from,
            escaped,
            views,
        });
        if let [
            ..,
            Step::Cells {
                row: last, count, ..
            },
        ] = &mut list[self.target..]
            && last.is(&row)
        {
            *count += 1;
            return true;
        }
        let first = (cells.len() - 1) as u32;
        self.push(Step::Cells {
            row,
            first,
            count: 1,
        })
    }

    /// Appends the steps of an operation, if it is one of those that run as one.
    pub(super) fn op(&mut self, op: &'a Op) -> bool {
        let column = |field: u16| &self.fields[usize::from(field)];
        let step = match op {
            Op::Field(op) => Step::Field {
                to: op.to,
                values: Values::of(column(op.field)),
            },
            Op::Length(op) => Step::Length {
                to: op.to,
                spans: &column(op.field).list().spans,
            },
            Op::Item(op) => {
                let list = column(op.list).list();
                Step::Item {
                    to: op.to,
                    position: op.position,
                    spans: &list.spans,
                    values: Values::of(&list.columns[usize::from(op.column)]),
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
                    Type::Text if wanted || *comparison == Comparison::NotEqual => Step::Equal {
                        to,
                        left,
                        right,
                        wanted,
                    },
                    _ => Step::Compute { op, to },
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
                    (kind, _) => Step::Print { put, kind },
                }
            }
            Op::If(op) => {
                let branch = self.at();
                self.push(Step::Jump { to: 0 });
                if !op.then.iter().all(|op| self.op(op)) {
                    return false;
                }
                let mut otherwise = self.at();
                if !op.otherwise.is_empty() {
                    self.push(Step::Jump { to: 0 });
                    if !op.otherwise.iter().all(|op| self.op(op)) {
                        return false;
                    }
                    self.steps.list[otherwise as usize] = Step::Jump { to: self.at() };
                    otherwise += 1;
                }
                self.steps.list[branch as usize] = Step::Branch {
                    condition: op.condition,
                    otherwise,
                };
                return true;
            }
            Op::For(op) if op.filter.is_none() => {
                let begin = self.at();
                self.push(Step::Jump { to: 0 });
                if !op.body.iter().all(|op| self.op(op)) {
                    return false;
                }
                self.push(Step::Next {
                    op,
                    body: begin + 1,
                });
                let mut none = self.at();
                if !op.otherwise.is_empty() {
                    self.push(Step::Jump { to: 0 });
                    if !op.otherwise.iter().all(|op| self.op(op)) {
                        return false;
                    }
                    self.steps.list[none as usize] = Step::Jump { to: self.at() };
                    none += 1;
                }
                self.steps.list[begin as usize] = Step::Begin { op, none };
                return true;
            }
            Op::Status(status) => Step::Status(*status),
            Op::File(path) => Step::File(*path),
            Op::SessionCreate(user) => Step::Session { user: Some(*user) },
            Op::SessionDestroy => Step::Session { user: None },
            Op::Finish => Step::Finish,
            _ => match compute::destination(op) {
                Some(to) => Step::Compute { op, to },
                None => return false,
            },
        };
        self.push(step)
    }

    fn fragment(&mut self, fragment: FragmentId) -> bool {
        let text = &self.fragments[fragment as usize];
        let length = text.len();
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
