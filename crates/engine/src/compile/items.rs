//! The items of lists: how many there are, and each by its position.
//!
//! A list's items are cells of columns, or else they are computed where they are asked for: the
//! numbers of a range, the parts of a text, what a filter makes of another list's items, and lists
//! of some of them.

use super::build::{OpenBlock, index_of};
use super::compiler::{Compiler, Result};
use super::value::{Chosen, Items, List, Literal, Operand};
use crate::diagnostic::Reported;
use crate::program::{
    Arithmetic, Choice, Comparison, ConstantItem, Formatting, If, KeyUse, Op, Register, Type, Unary,
};
use std::rc::Rc;

impl Compiler<'_, '_> {
    /// How many items a list has.
    pub(super) fn length_of(&mut self, list: &List) -> Result<Operand> {
        let leaves_all = |chosen: &Chosen| {
            matches!(chosen, Chosen::Reverse | Chosen::By(KeyUse::Sort { .. }, _))
        };
        if list.chosen.iter().all(leaves_all) {
            return self.length_of_all(list);
        }
        let count = self.count_of_all(list)?;
        let count = self.register(&count);
        let position = self.stage.new_register(Type::Int);
        let choices: Vec<Choice> = self.choices(list, position)?;
        let ((), length) = self.turns(count, position, choices, |_, _, _| ());
        Ok(Operand::register(length, Type::Int))
    }

    /// How many items a list has of which nothing is chosen yet.
    pub(super) fn length_of_all(&mut self, list: &List) -> Result<Operand> {
        let count = self.count_of_all(list)?;
        match (&list.items, &count) {
            (Items::Range { .. }, Operand::Literal(Literal::Int(count))) => {
                Ok(Operand::int((*count).max(0)))
            }
            (Items::Range { .. }, _) => self.chosen_of(Comparison::Greater, count, Operand::int(0)),
            (Items::Mapped { of, .. } | Items::Groups { of, .. }, _) => self.length_of_all(of),
            _ => Ok(count),
        }
    }

    /// The same for loops, which take a count of less than 1 for 0.
    pub(super) fn count_of_all(&mut self, list: &List) -> Result<Operand> {
        Ok(match &list.items {
            Items::Field { field, .. } => Operand::register(self.stage.length(*field), Type::Int),
            Items::Tables { length, .. } => Operand::int(*length as i64),
            Items::Range { count, .. } | Items::Window { count, .. } => (**count).clone(),
            Items::Parts { count, .. } => Operand::register(*count, Type::Int),
            Items::Mapped { of, .. } | Items::Groups { of, .. } => self.count_of_all(of)?,
            Items::Batches { size, length, .. } => {
                let more = Operand::int(size - 1);
                let more = self.integer_arithmetic(Arithmetic::Add, length, &more)?;
                self.integer_arithmetic(Arithmetic::FloorDivide, &more, &Operand::int(*size))?
            }
            Items::Slices { count, .. } => Operand::int(*count),
        })
    }

    /// One of two integers: the first where it compares so with the other.
    fn chosen_of(&mut self, by: Comparison, one: Operand, other: Operand) -> Result<Operand> {
        let (left, right) = (self.register(&one), self.register(&other));
        let condition = self.stage.compare(by, left, right);
        let [one, other] = [one, other].map(|value| (OpenBlock::default(), value));
        // Both are integers.
        self.select(condition, one, other).map_err(|_| Reported)
    }

    /// The item at an index of a list; where there is none its lane fails.
    pub(super) fn item_at(&mut self, list: &Rc<List>, index: &Operand) -> Result<Operand> {
        let position = self.position_of(list, index)?;
        self.checked_item(list, position)
    }

    /// The position of the item at an index among all of a list's, -1 where nothing chosen is
    /// there.
    pub(super) fn position_of(&mut self, list: &Rc<List>, index: &Operand) -> Result<Register> {
        let wanted = self.register(index);
        if list.chosen.is_empty() {
            return Ok(wanted);
        }
        let found = self.copied(&Operand::int(-1), Type::Int);
        self.through(list, |this, position, index| {
            let condition = (this.stage).compare(Comparison::Equal, index, wanted);
            this.stage.push(Op::If(If {
                condition,
                then: vec![Op::Copy(Unary {
                    to: found,
                    from: position,
                })],
                otherwise: Vec::new(),
            }));
        })?;
        Ok(found)
    }

    /// The item at a position among all of a list's; where there is none its lane fails.
    pub(super) fn checked_item(&mut self, list: &Rc<List>, position: Register) -> Result<Operand> {
        let is_checked = matches!(
            list.items,
            Items::Field { .. } | Items::Tables { .. } | Items::Parts { .. }
        );
        if !is_checked {
            let is_there = self.is_position(list, position)?;
            let table = self.table(&[Literal::Int(0)]);
            let behind = self.register(&Operand::int(1));
            self.stage.open();
            self.stage.other(Type::Int, |to| {
                Op::ConstantItem(ConstantItem {
                    to,
                    table,
                    position: behind,
                })
            });
            let fails = self.stage.close(self.fragments);
            let passes = OpenBlock::default();
            self.stage.push_if(is_there, passes, fails, self.fragments);
        }
        self.item(&Operand::List(list.clone()), position)
    }

    /// Whether there is an item at a position among all of a list's.
    pub(super) fn is_position(&mut self, list: &List, position: Register) -> Result<Register> {
        // One before the first, as the last of none, is as far beyond the end.
        let zero = self.register(&Operand::int(0));
        let is_after = (self.stage).compare(Comparison::GreaterOrEqual, position, zero);
        let length = self.length_of_all(list)?;
        let length = self.register(&length);
        let is_before = self.stage.compare(Comparison::Less, position, length);
        let both = self.select(
            is_after,
            (
                OpenBlock::default(),
                Operand::register(is_before, Type::Bool),
            ),
            (OpenBlock::default(), Operand::bool(false)),
        );
        // Both are booleans.
        let both = both.map_err(|_| Reported)?;
        Ok(self.register(&both))
    }

    /// The item at a position among all of a list's, which is there.
    pub(super) fn item(&mut self, items: &Operand, position: Register) -> Result<Operand> {
        let Operand::List(list) = items else {
            return Err(Reported);
        };
        self.has_room()?;
        let at = Operand::register(position, Type::Int);
        match &list.items {
            Items::Field { .. } | Items::Tables { .. } => {
                let list = match list.chosen.is_empty() {
                    true => list.clone(),
                    false => Rc::new(list.all()),
                };
                Ok(match list.is_plain() {
                    true => Operand::Column {
                        list,
                        column: 0,
                        position,
                    },
                    false => Operand::Row { list, position },
                })
            }
            Items::Range { start, step, .. } => {
                let offset = if *step == 1 {
                    at
                } else {
                    self.integer_arithmetic(Arithmetic::Multiply, &at, &Operand::int(*step))?
                };
                match &**start {
                    Operand::Literal(Literal::Int(0)) => Ok(offset),
                    start => self.integer_arithmetic(Arithmetic::Add, start, &offset),
                }
            }
            Items::Parts {
                text, places, safe, ..
            } => {
                let [text, places] = [*text, *places].map(|it| Operand::register(it, Type::Text));
                Ok(self.formatted(Formatting::Part, &[text, places, at], *safe))
            }
            Items::Mapped { of, by, .. } => {
                let item = self.item(&Operand::List(of.clone()), position)?;
                self.mapped(by, item)
            }
            Items::Window { of, start, .. } => {
                let at = self.integer_arithmetic(Arithmetic::Add, start, &at)?;
                let position = self.register(&at);
                self.item(&Operand::List(of.clone()), position)
            }
            Items::Batches { of, size, length } => {
                let size = Operand::int(*size);
                let start = self.integer_arithmetic(Arithmetic::Multiply, &at, &size)?;
                let left = self.integer_arithmetic(Arithmetic::Subtract, length, &start)?;
                let count = self.chosen_of(Comparison::Less, left, size)?;
                self.window(of, start, count)
            }
            Items::Groups { of, by } => self.group(of, by, position),
            Items::Slices { of, count, length } => {
                let count = Operand::int(*count);
                let each = self.integer_arithmetic(Arithmetic::FloorDivide, length, &count)?;
                let longer = self.integer_arithmetic(Arithmetic::Remainder, length, &count)?;
                let before = self.integer_arithmetic(Arithmetic::Multiply, &at, &each)?;
                let more = self.chosen_of(Comparison::Less, at.clone(), longer.clone())?;
                let start = self.integer_arithmetic(Arithmetic::Add, &before, &more)?;
                // What the next one begins behind.
                let next = self.integer_arithmetic(Arithmetic::Add, &at, &Operand::int(1))?;
                let more_then = self.chosen_of(Comparison::Less, next, longer)?;
                let extra = self.integer_arithmetic(Arithmetic::Subtract, &more_then, &more)?;
                let count = self.integer_arithmetic(Arithmetic::Add, &each, &extra)?;
                self.window(of, start, count)
            }
        }
    }

    /// So many of a list's items, from one on.
    fn window(&mut self, of: &Rc<List>, start: Operand, count: Operand) -> Result<Operand> {
        if of.chosen.is_empty() {
            let (start, count) = (Box::new(start), Box::new(count));
            let of = of.clone();
            let columns = of.columns.clone();
            return Ok(List::of(Items::Window { of, start, count }, columns));
        }
        let stop = self.integer_arithmetic(Arithmetic::Add, &start, &count)?;
        Ok(of.choose(Chosen::Slice(Box::new([start, stop]), 1)))
    }

    /// The value that an item of a list, at a position among all, has in a column.
    pub(super) fn value_of(
        &mut self,
        list: &Rc<List>,
        column: usize,
        position: Register,
    ) -> Result<Operand> {
        match self.item(&Operand::List(list.clone()), position)? {
            Operand::Row { list, position } => Ok(Operand::Column {
                list,
                column: index_of(column),
                position,
            }),
            value => Ok(value),
        }
    }
}
