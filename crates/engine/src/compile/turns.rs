//! What the turns of a loop tell those behind them: that the loop has ended (`break`), which item
//! was before (`loop.previtem`), and what was last seen (`loop.changed`).
//!
//! All loops take all of their turns. A turn that `continue` or `break` has ended does nothing
//! more: what stands behind them is done where a register says that the turn goes on, and after a
//! `break` no further turn does.

use super::build::OpenBlock;
use super::compiler::{Compiler, Left, Result, Turns};
use super::value::{List, LoopRegisters, Operand};
use crate::diagnostic::{Place, Reported};
use crate::program::{Arithmetic, Binary, Comparison, If, Op, Register, Type, Unary};
use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use std::rc::Rc;

/// What was under way around a loop.
pub(super) struct Around {
    current_loop: Option<Register>,
    left: Left,
}

impl<'a> Compiler<'_, 'a> {
    /// To be called where the body of a loop begins.
    pub(super) fn begin_turns(
        &mut self,
        list: &Rc<List>,
        position: Register,
        registers: LoopRegisters,
        takes_all: bool,
    ) -> Around {
        let turns = Turns {
            list: list.clone(),
            position,
            takes_all,
            turn_goes_on: None,
            goes_on: None,
            previous: None,
            seen: None,
        };
        self.loops.insert(registers.index, turns);
        Around {
            current_loop: self.current_loop.replace(registers.index),
            left: std::mem::take(&mut self.left),
        }
    }

    /// Puts round a loop's body what its turns tell each other, and before the loop what the first
    /// is told.
    pub(super) fn end_turns(
        &mut self,
        body: OpenBlock,
        registers: LoopRegisters,
        around: Around,
    ) -> OpenBlock {
        self.current_loop = around.current_loop;
        self.left = around.left;
        let Some(turns) = self.loops.remove(&registers.index) else {
            return body;
        };
        let (yes, no) = (Operand::bool(true), Operand::bool(false));
        for (register, first) in [
            (turns.goes_on, &yes),
            (turns.previous, &Operand::int(-1)),
            (turns.seen.map(|(seen, _)| seen), &no),
        ] {
            if let Some(to) = register {
                self.copy_to(to, first);
            }
        }
        if turns.turn_goes_on.is_none() && turns.previous.is_none() {
            return body;
        }
        self.stage.open();
        match turns.turn_goes_on {
            Some(turn_goes_on) => {
                let from = match turns.goes_on {
                    Some(goes_on) => Operand::register(goes_on, Type::Bool),
                    None => yes,
                };
                self.copy_to(turn_goes_on, &from);
                let nothing = OpenBlock::default();
                self.stage
                    .push_if(turn_goes_on, body, nothing, self.fragments);
            }
            None => {
                let opened = self.stage.close(self.fragments);
                debug_assert!(opened.ops.is_empty());
                self.stage.reopen(body);
            }
        }
        if let Some(previous) = turns.previous {
            self.copy_to(previous, &Operand::register(turns.position, Type::Int));
        }
        self.stage.close(self.fragments)
    }

    pub(super) fn copy_to(&mut self, to: Register, operand: &Operand) {
        let from = self.register(operand);
        self.stage.push(Op::Copy(Unary { to, from }));
    }

    /// A register of the loop's, made where it is first asked for.
    fn of_turns(
        &mut self,
        of: Register,
        kind: Type,
        which: impl Fn(&mut Turns) -> &mut Option<Register>,
    ) -> Option<Register> {
        let turns = self.loops.get_mut(&of)?;
        let register = which(turns);
        if register.is_none() {
            *register = Some(self.stage.new_register(kind));
        }
        *register
    }

    /// `break`, or `continue`.
    pub(super) fn leave_turn(&mut self, ends_loop: bool, place: Place<'a>) -> Result<()> {
        let no = Operand::bool(false);
        let turn = self.current_loop.and_then(|of| {
            if ends_loop {
                let goes_on = self.of_turns(of, Type::Bool, |turns| &mut turns.goes_on)?;
                self.copy_to(goes_on, &no);
            }
            self.of_turns(of, Type::Bool, |turns| &mut turns.turn_goes_on)
        });
        let Some(turn) = turn else {
            let hint = "it belongs into the body of a `for`";
            return Err(self.error(place, "there is no loop to be left here", hint));
        };
        self.copy_to(turn, &no);
        self.left = Left::Surely;
        Ok(())
    }

    /// Compiles what stands behind a statement that may have ended the turn.
    pub(super) fn rest_of_turn(&mut self, rest: &'a [Stmt<'a>]) {
        let turn = (self.current_loop)
            .and_then(|of| self.of_turns(of, Type::Bool, |turns| &mut turns.turn_goes_on));
        let (Left::Perhaps, Some(turn), false) = (self.left, turn, rest.is_empty()) else {
            // Nobody comes there.
            return;
        };
        self.left = Left::No;
        let mut ended = Left::No;
        let _ = self.branch(
            Operand::register(turn, Type::Bool),
            |this| {
                this.statements(rest);
                ended = std::mem::take(&mut this.left);
                Ok(())
            },
            |_| Ok(()),
        );
        self.left = Left::Surely.or(ended);
    }

    /// `loop.previtem` and `loop.nextitem`.
    pub(super) fn neighbor(
        &mut self,
        registers: LoopRegisters,
        name: &str,
        place: Place<'a>,
    ) -> Result<Operand> {
        let Some(turns) = self.loops.get(&registers.index) else {
            let hint = "ask for it within the loop";
            return Err(self.error(place, format!("there is no `{name}` here"), hint));
        };
        let list = Rc::new(turns.list.all());
        let (takes_all, position) = (turns.takes_all, turns.position);
        if name == "previtem" {
            let index = registers.index;
            let previous = self.of_turns(index, Type::Int, |turns| &mut turns.previous);
            let position = previous.unwrap_or(position);
            let zero = self.register(&Operand::int(0));
            let there = (self.stage).compare(Comparison::Greater, index, zero);
            return self.perhaps(there, &list, position, place);
        }
        if !takes_all {
            let message = "which item is next is not known where only some are taken, or sorted";
            let hint = "`loop.previtem` is known, and `loop.last` tells whether there is a next";
            return Err(self.error(place, message, hint));
        }
        let position = Operand::register(position, Type::Int);
        let next = self.integer_arithmetic(Arithmetic::Add, &position, &Operand::int(1))?;
        let next = self.register(&next);
        let there = self.stage.compare(Comparison::Less, next, registers.length);
        self.perhaps(there, &list, next, place)
    }

    /// The item at a position, for the lanes that have one there.
    fn perhaps(
        &mut self,
        there: Register,
        list: &Rc<List>,
        position: Register,
        place: Place<'a>,
    ) -> Result<Operand> {
        self.stage.open();
        let item = self.item(&Operand::List(list.clone()), position);
        let block = self.stage.close(self.fragments);
        let nothing = OpenBlock::default();
        // Where there is none, a record is asked for that no list has: its lane fails.
        let (item, otherwise, row) = match item? {
            Operand::Row { list, position } => {
                let position = Operand::register(position, Type::Int);
                (position, Operand::int(-1), Some(list))
            }
            value => match value.scalar() {
                Some((kind, safe)) => (value, Operand::empty(kind, safe), None),
                None => {
                    let message = format!("its items are {}", value.describe());
                    return Err(self.error(place, message, "go through them by `loop.index0`"));
                }
            },
        };
        // Both are of one type.
        let of = (self.select(there, (block, item), (nothing, otherwise))).map_err(|_| Reported)?;
        let of = match row {
            Some(list) => Operand::Row {
                list,
                position: self.register(&of),
            },
            None => of,
        };
        let of = Box::new(of);
        Ok(Operand::Perhaps { there, of })
    }

    /// `loop.changed(...)`: whether it is given something else than the last time in this loop.
    pub(super) fn changed(
        &mut self,
        base: &Operand,
        arguments: &[CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let form = "{% if loop.changed(row.name) %}";
        let mut values = Vec::new();
        for argument in arguments {
            let value = match argument {
                CallArg::Pos(expression) => self.value_seen(expression)?,
                _ => None,
            };
            let Some(value) = value else {
                let message = "`changed` is given texts, numbers and booleans";
                return Err(self.error(place, message, form));
            };
            values.push(value);
        }
        let Operand::Loop(registers) = base else {
            return Err(self.error(place, "`changed` is for loops", form));
        };
        let kinds: Vec<Type> = values.iter().map(|it| self.stage.kind_of(*it)).collect();
        let Some(turns) = self.loops.get_mut(&registers.index) else {
            let hint = "ask for it within the loop";
            return Err(self.error(place, "there is no `changed` here", hint));
        };
        let (seen, last) = match &turns.seen {
            Some(known) => known.clone(),
            None => {
                let mut new = |kind| self.stage.new_register(kind);
                let made = (
                    new(Type::Bool),
                    kinds.iter().copied().map(&mut new).collect(),
                );
                turns.seen.insert(made).clone()
            }
        };
        if !last.iter().map(|it| self.stage.kind_of(*it)).eq(kinds) {
            let message = "`changed` is given values of other types than before in this loop";
            let hint =
                "what it is given is compared with what it was given last, wherever that was";
            return Err(self.error(place, message, hint));
        }
        let changed = self.copied(&Operand::bool(true), Type::Bool);
        self.stage.open();
        self.copy_to(changed, &Operand::bool(false));
        for (left, right) in values.iter().copied().zip(last.iter().copied()) {
            // Not one that is known: what was seen last changes.
            let condition = (self.stage).other(Type::Bool, |to| {
                Op::Compare(Comparison::NotEqual, Binary { to, left, right })
            });
            self.then_copy(condition, &[(changed, Operand::bool(true))]);
        }
        let compared = self.stage.close(self.fragments);
        let nothing = OpenBlock::default();
        self.stage.push_if(seen, compared, nothing, self.fragments);
        let mut copies = vec![(seen, Operand::bool(true))];
        for (from, to) in values.into_iter().zip(last) {
            copies.push((to, Operand::register(from, self.stage.kind_of(from))));
        }
        self.then_copy(changed, &copies);
        Ok(Operand::register(changed, Type::Bool))
    }

    /// Copies values where a condition holds.
    pub(super) fn then_copy(&mut self, condition: Register, copies: &[(Register, Operand)]) {
        let copies = copies.iter().map(|(to, from)| {
            let from = self.register(from);
            Op::Copy(Unary { to: *to, from })
        });
        let then = copies.collect();
        self.stage.push(Op::If(If {
            condition,
            then,
            otherwise: Vec::new(),
        }));
    }

    /// The register of a value that can be seen again.
    fn value_seen(&mut self, expression: &Expr<'_>) -> Result<Option<Register>> {
        let value = self.expression(expression)?;
        Ok((value.scalar()).map(|_| self.register(&value)))
    }
}
