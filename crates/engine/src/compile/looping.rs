//! Loops: `{% for item in items %}`, and the items of lists.

use super::build::OpenBlock;
use super::compiler::{Compiler, Left, Result, Turns};
use super::scope::Frame;
use super::value::{Items, List, Literal, LoopRegisters, Operand};
use crate::diagnostic::{Place, Reported};
use crate::program::{Choice, For, Key, KeyUse, Register, Type};
use minijinja::machinery::ast::{self, Spanned};
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    pub(super) fn for_statement(&mut self, node: &'a Spanned<ast::ForLoop<'a>>) -> Result<()> {
        if node.recursive {
            let _ = self.unsupported(
                self.at(node),
                "a recursive loop",
                "write a loop for each level",
            );
        }
        let items = self.expression(&node.iter).and_then(|items| {
            let place = self.place_of(&node.iter);
            self.iterable(items, place)
        });
        let items = match items {
            Ok(items) => items,
            Err(Reported) => return Err(self.body_of_nothing(node)),
        };
        let Operand::List(list) = &items else {
            return Err(Reported);
        };
        let count = self.count_of_all(list)?;
        if let Operand::Literal(Literal::Int(count)) = &count
            && *count < 1
        {
            self.statements(&node.else_body);
            return Ok(());
        }
        let takes_all = node.filter_expr.is_none() && list.chosen.is_empty();
        let runs_always = takes_all && matches!(&count, Operand::Literal(_));
        let Some(count) = self.stage.register(&count, self.page) else {
            return Err(Reported);
        };
        let position = self.stage.new_register(Type::Int);
        let registers = LoopRegisters {
            index: self.stage.new_register(Type::Int),
            length: self.stage.new_register(Type::Int),
        };
        let mut choices = self.choices(list, position)?;
        self.stage.fork(self.page);

        let filter = self.loop_filter(node, &items, position);
        self.stage.open();
        self.scope.frames.push(Frame {
            looping: Some(registers),
            ..Frame::default()
        });
        let around = self.begin_turns(
            list,
            position,
            registers,
            choices.is_empty() && filter.is_none(),
        );
        let mut result = self.bind_item(&node.target, &items, position);
        self.statements(&node.body);
        self.scope.frames.pop();
        self.stage.join(self.page);
        let body = self.stage.close(self.fragments);
        let ends = self.loops.get(&registers.index).is_some_and(Turns::may_end);
        if ends && !node.else_body.is_empty() {
            let hint = "ask before it: {% if list %}{% for ... %}";
            let message = "a loop with `break` has no `else` here";
            result = Err(self.error(self.at(node), message, hint));
        }
        let body = self.end_turns(body, registers, around);

        let otherwise = self.loop_else(node, runs_always);
        if node.filter_expr.is_some() && filter.is_none() {
            result = Err(Reported);
        }
        choices.extend(filter);
        if body.ops.is_empty() && otherwise.ops.is_empty() && choices.is_empty() {
            return result;
        }
        self.stage
            .push_for(body, otherwise, self.fragments, |body, otherwise| For {
                count,
                choices,
                position,
                index: registers.index,
                length: registers.length,
                body,
                otherwise,
            });
        result
    }

    /// A loop through a list's items. `turn` compiles one: the item at this position, by this
    /// index.
    pub(super) fn through<T>(
        &mut self,
        list: &List,
        turn: impl FnOnce(&mut Self, Register, Register) -> T,
    ) -> Result<T> {
        let count = self.count_of_all(list)?;
        let count = self.register(&count);
        let position = self.stage.new_register(Type::Int);
        let choices = self.choices(list, position)?;
        Ok(self.turns(count, position, choices, turn).0)
    }

    /// A loop without names, and the register that has how many turns it took.
    pub(super) fn turns<T>(
        &mut self,
        count: Register,
        position: Register,
        choices: Vec<Choice>,
        turn: impl FnOnce(&mut Self, Register, Register) -> T,
    ) -> (T, Register) {
        let [index, length] = [Type::Int; 2].map(|kind| self.stage.new_register(kind));
        self.stage.open();
        let result = turn(self, position, index);
        let body = self.stage.close(self.fragments);
        let otherwise = OpenBlock::default();
        self.stage
            .push_for(body, otherwise, self.fragments, |body, otherwise| For {
                count,
                choices,
                position,
                index,
                length,
                body,
                otherwise,
            });
        (result, length)
    }

    /// Compiles the body of a loop through what is no list, for the mistakes that it may have of
    /// its own.
    fn body_of_nothing(&mut self, node: &'a ast::ForLoop<'a>) -> Reported {
        self.scope.frames.push(Frame::default());
        self.scope.set("loop", Operand::Poison);
        self.poison(&node.target);
        let around = std::mem::take(&mut self.left);
        self.statements(&node.body);
        self.left = around;
        self.scope.frames.pop();
        Reported
    }

    /// Compiles what says which items a loop takes. `None`: all, or there is a mistake.
    fn loop_filter(
        &mut self,
        node: &'a ast::ForLoop<'a>,
        items: &Operand,
        position: Register,
    ) -> Option<Choice> {
        let expression = node.filter_expr.as_ref()?;
        // As in MiniJinja, `loop` is that of the loop around here.
        self.stage.open();
        self.scope.frames.push(Frame::default());
        let keep = self
            .bind_item(&node.target, items, position)
            .and_then(|()| self.condition(expression));
        self.scope.frames.pop();
        let keep = keep.ok();
        let keep = keep.and_then(|keep| self.stage.register(&keep, self.page));
        let block = self.stage.close(self.fragments).ops;
        keep.map(|register| Choice::By(KeyUse::Keep, Key { block, register }))
    }

    /// Compiles what a loop without turns does.
    fn loop_else(&mut self, node: &'a Spanned<ast::ForLoop<'a>>, runs_always: bool) -> OpenBlock {
        if node.else_body.is_empty() {
            return OpenBlock::default();
        }
        if runs_always {
            let message = "the `else` of this loop is never reached";
            let hint = "the list is written out and not empty: remove the `else`";
            self.report.warning(self.at(node), message, hint);
            return OpenBlock::default();
        }
        let before = self.scope.snapshot();
        let (mut otherwise, ()) = self.in_branch(|this| this.statements(&node.else_body));
        // Those who had turns go on behind the loop in any case.
        self.left = Left::No.or(self.left);
        // Where the loop has turns, names keep what they were: that is copied before it.
        let after_else = self.scope.restore(before.clone());
        let mut unchanged = OpenBlock::default();
        self.merge(
            "for",
            (&before, &mut unchanged),
            (&after_else, &mut otherwise),
        );
        for op in unchanged.ops {
            self.stage.push(op);
        }
        otherwise
    }

    /// What `for` goes through, or a mistake.
    pub(super) fn iterable(&mut self, items: Operand, place: Place<'a>) -> Result<Operand> {
        match items {
            Operand::List(_) => Ok(items),
            Operand::Map(pairs) => Ok(self.keys_of(&pairs)),
            Operand::Undefined => Ok(List::empty()),
            Operand::Poison => Err(Reported),
            other => {
                let message = format!("`for` cannot go through {}", other.describe());
                let hint = match other {
                    Operand::Record(_) => "`row` of a call is one record; `rows` makes a list",
                    _ => {
                        "lists are: list parameters, rows of calls, range(...), lists of \
                         constants, and text|split(\",\")"
                    }
                };
                Err(self.error(place, message, hint))
            }
        }
    }

    /// Gives a loop's names their values.
    pub(super) fn bind_item(
        &mut self,
        target: &'a ast::Expr<'a>,
        items: &Operand,
        position: Register,
    ) -> Result<()> {
        match target {
            ast::Expr::Var(name) => {
                let item = self.item(items, position)?;
                self.scope.set(name.id, item);
                Ok(())
            }
            ast::Expr::List(names) => {
                let place = self.at(names);
                if let Operand::List(list) = items
                    && matches!(list.items, Items::Groups { .. })
                    && let [ast::Expr::Var(grouper), ast::Expr::Var(of_group)] = &names.items[..]
                {
                    let group = self.item(items, position)?;
                    for (name, part) in [(grouper, "grouper"), (of_group, "list")] {
                        let value = self.attribute(&group, part)?;
                        self.scope.set(name.id, value.ok_or(Reported)?);
                    }
                    return Ok(());
                }
                let unnamed = |list: &Rc<List>| {
                    let mut columns = list.columns.iter();
                    !list.columns.is_empty() && columns.all(|(name, _)| name.parse::<u16>().is_ok())
                };
                let list = match items {
                    Operand::List(list) if unnamed(list) => list.clone(),
                    _ => {
                        self.poison(target);
                        let hint = "for row in rows, then row.column";
                        return Err(self.error(
                            place,
                            "records have names, they are not unpacked",
                            hint,
                        ));
                    }
                };
                if list.columns.len() != names.items.len() {
                    self.poison(target);
                    let message = format!(
                        "the items have {} values, not {}",
                        list.columns.len(),
                        names.items.len()
                    );
                    let hint = "as many names as each item has values";
                    return Err(self.error(place, message, hint));
                }
                for (column, name) in names.items.iter().enumerate() {
                    let ast::Expr::Var(name) = name else {
                        self.poison(target);
                        return Err(self.unsupported(
                            place,
                            "unpacking within unpacking",
                            "write the items out flat: (a, b, c)",
                        ));
                    };
                    let value = self.value_of(&list, column, position)?;
                    self.scope.set(name.id, value);
                }
                Ok(())
            }
            _ => Err(Reported),
        }
    }

    /// Gives names a value whose uses are not reported again.
    pub(super) fn poison(&mut self, target: &'a ast::Expr<'a>) {
        match target {
            ast::Expr::Var(name) => self.scope.set(name.id, Operand::Poison),
            ast::Expr::List(names) => names.items.iter().for_each(|name| self.poison(name)),
            _ => {}
        }
    }
}
