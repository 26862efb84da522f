//! Statements of templates: from MiniJinja's syntax tree to operations.
//!
//! Compiling follows what MiniJinja's machine would do, statement by statement, with operands in
//! place of values.

use super::build::OpenBlock;
use super::compiler::{Compiler, MacroDefinition, Result};
use super::scope::Frame;
use super::value::{Items, List, Literal, LoopRegisters, Operand};
use crate::diagnostic::{Place, Reported};
use crate::program::{Arithmetic, Escape, For, LoopFilter, Register, Type};
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, Spanned, Stmt};
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    /// Compiles statements. A mistake in one does not hide those of the next.
    pub(super) fn statements(&mut self, statements: &'a [Stmt<'a>]) {
        for statement in statements {
            if self.exhausted {
                return;
            }
            let place = self.origin.at(span_of(statement));
            let _ = self.nested(place, |this| this.statement(statement));
        }
    }

    pub(super) fn statement(&mut self, statement: &'a Stmt<'a>) -> Result<()> {
        match statement {
            Stmt::Template(node) => self.statements(&node.children),
            Stmt::EmitRaw(node) => self.stage.write_text(node.raw),
            Stmt::EmitExpr(node) => return self.emit(&node.expr),
            Stmt::IfCond(node) => return self.if_statement(node),
            Stmt::ForLoop(node) => return self.for_statement(node),
            Stmt::Set(node) => return self.set_statement(&node.target, &node.expr),
            Stmt::WithBlock(node) => {
                self.scope.frames.push(Frame::default());
                for (target, value) in &node.assignments {
                    let _ = self.set_statement(target, value);
                }
                self.statements(&node.body);
                self.scope.frames.pop();
            }
            Stmt::Block(node) => {
                if self.extended.is_none() && !self.stage.is_discarding() {
                    return self.call_block(node.name, self.at(node));
                }
            }
            Stmt::Extends(node) => return self.extends_statement(node),
            Stmt::Include(node) => return self.include_statement(node),
            Stmt::Import(node) => {
                let ast::Expr::Var(target) = &node.name else {
                    return Err(self.error(
                        self.at(node),
                        "an import is given a name",
                        "{% import \"x.html\" as x %}",
                    ));
                };
                let names = self.import(&node.expr, self.at(node));
                let module = match names {
                    Ok(frame) => {
                        let public = |(name, _): &(String, Operand)| !name.starts_with('_');
                        Operand::Module(Rc::new(frame.locals.into_iter().filter(public).collect()))
                    }
                    Err(Reported) => Operand::Poison,
                };
                self.scope.set(target.id, module);
            }
            Stmt::FromImport(node) => return self.names_import_statement(node),
            Stmt::Macro(node) => {
                let closure = self.scope.enclose();
                self.macros.push(MacroDefinition {
                    definition: node,
                    origin: self.origin,
                    closure,
                });
                self.scope
                    .set(node.name, Operand::Macro(self.macros.len() - 1));
            }
            Stmt::SetBlock(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "a `set` block",
                    "{% set x = ... %} sets a name to one expression",
                ));
            }
            Stmt::AutoEscape(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "`autoescape`",
                    "`|safe` prints one value unescaped",
                ));
            }
            Stmt::FilterBlock(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "a `filter` block",
                    "apply the filter to each value",
                ));
            }
            Stmt::CallBlock(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "a `call` block",
                    "give the macro an argument",
                ));
            }
            Stmt::Do(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "`do`",
                    "expressions have no effect here",
                ));
            }
            // Further statements exist where another crate of the build switches on further
            // features of the parser.
            #[allow(unreachable_patterns)]
            _ => return Err(self.unsupported(self.origin.place(0), "this statement", "")),
        }
        Ok(())
    }

    /// `{{ expression }}`
    pub(super) fn emit(&mut self, expression: &'a ast::Expr<'a>) -> Result<()> {
        match expression {
            // The branches of a printed condition need not be of one type.
            ast::Expr::IfExpr(node) => {
                let condition = self.condition(&node.test_expr)?;
                return self.branch(
                    condition,
                    |this| this.nested(this.at(node), |this| this.emit(&node.true_expr)),
                    |this| match &node.false_expr {
                        Some(expression) => {
                            this.nested(this.at(node), |this| this.emit(expression))
                        }
                        None => Ok(()),
                    },
                );
            }
            ast::Expr::Call(call) => match call.identify_call() {
                ast::CallType::Function("super") if call.args.is_empty() => {
                    return self.super_block(self.at(call));
                }
                ast::CallType::Block(name) => {
                    if self.extended.is_none() && !self.stage.is_discarding() {
                        let place = self.at(call);
                        return match self.blocks.get_key_value(name).map(|(name, _)| *name) {
                            Some(name) => self.call_block(name, place),
                            None => Err(self.unknown_block(name, place)),
                        };
                    }
                    return Ok(());
                }
                _ => {
                    if let Some((definition, arguments)) = self.macro_call(call)? {
                        return self.expand_macro(definition, arguments, self.at(call));
                    }
                }
            },
            _ => {}
        }
        let operand = self.expression(expression)?;
        let place = self.place_of(expression);
        self.print(&operand, Escape::Html, place)
    }

    /// Prints a value.
    pub(super) fn print(
        &mut self,
        operand: &Operand,
        escape: Escape,
        place: Place<'a>,
    ) -> Result<()> {
        match operand {
            Operand::None => self.stage.write_text("None"),
            Operand::Undefined => {}
            Operand::Poison => return Err(Reported),
            _ => {
                if self
                    .stage
                    .write(operand, escape, self.page, self.fragments)
                    .is_none()
                {
                    let message = format!("{} cannot be printed", operand.describe());
                    let hint = match operand {
                        Operand::Record(names) => {
                            format!("print one of its values: {}", join(names.keys()))
                        }
                        Operand::Row { list, .. } => {
                            format!(
                                "print one of its columns: {}",
                                join(list.columns.iter().map(|(name, _)| name))
                            )
                        }
                        Operand::List(_) | Operand::Range { .. } => {
                            "go through it with `for`, or use `|length`".to_owned()
                        }
                        Operand::Macro(_) => "call it: {{ name(...) }}".to_owned(),
                        _ => String::new(),
                    };
                    return Err(self.error(place, message, hint));
                }
            }
        }
        Ok(())
    }

    pub(super) fn set_statement(
        &mut self,
        target: &'a ast::Expr<'a>,
        value: &'a ast::Expr<'a>,
    ) -> Result<()> {
        let ast::Expr::Var(target) = target else {
            let place = self.place_of(target);
            let hint = "set one name at a time; there are no namespaces";
            return Err(self.error(place, "`set` sets one name", hint));
        };
        let operand = self.expression(value);
        self.scope.set(
            target.id,
            operand.as_ref().map_or(Operand::Poison, Clone::clone),
        );
        operand.map(|_| ())
    }

    pub(super) fn if_statement(&mut self, node: &'a ast::IfCond<'a>) -> Result<()> {
        let condition = self.condition(&node.expr);
        let condition = match condition {
            Ok(condition) => condition,
            Err(Reported) => {
                // Both bodies may have mistakes of their own.
                self.statements(&node.true_body);
                self.statements(&node.false_body);
                return Err(Reported);
            }
        };
        self.branch(
            condition,
            |this| {
                this.statements(&node.true_body);
                Ok(())
            },
            |this| {
                this.statements(&node.false_body);
                Ok(())
            },
        )
    }

    pub(super) fn for_statement(&mut self, node: &'a Spanned<ast::ForLoop<'a>>) -> Result<()> {
        if node.recursive {
            let _ = self.unsupported(self.at(node), "a recursive loop", "");
        }
        let items = self.expression(&node.iter).and_then(|items| {
            let place = self.place_of(&node.iter);
            self.iterable(items, place)
        });
        let items = match items {
            Ok(items) => items,
            Err(Reported) => {
                // The body may have mistakes of its own.
                self.scope.frames.push(Frame::default());
                self.poison(&node.target);
                self.statements(&node.body);
                self.scope.frames.pop();
                return Err(Reported);
            }
        };
        let count = match &items {
            Operand::Range { count, .. } => (**count).clone(),
            Operand::List(list) => self.length_of(list),
            _ => return Err(Reported),
        };
        if let Operand::Literal(Literal::Int(count)) = &count
            && *count < 1
        {
            self.statements(&node.else_body);
            return Ok(());
        }
        let runs_always = node.filter_expr.is_none() && matches!(&count, Operand::Literal(_));
        let Some(count) = self.stage.register(&count, self.page) else {
            return Err(Reported);
        };
        let position = self.stage.new_register(Type::Int);
        let registers = LoopRegisters {
            index: self.stage.new_register(Type::Int),
            length: self.stage.new_register(Type::Int),
        };
        self.stage.fork(self.page);

        let mut filter = None;
        if let Some(expression) = &node.filter_expr {
            // As in MiniJinja, `loop` is that of the loop around here.
            self.stage.open();
            self.scope.frames.push(Frame::default());
            let keep = self
                .bind_item(&node.target, &items, position)
                .and_then(|()| self.condition(expression));
            self.scope.frames.pop();
            let keep = keep
                .ok()
                .and_then(|keep| self.stage.register(&keep, self.page));
            let block = self.stage.close(self.fragments).ops;
            filter = keep.map(|keep| LoopFilter { block, keep });
        }

        self.stage.open();
        self.scope.frames.push(Frame {
            looping: Some(registers),
            ..Frame::default()
        });
        let mut result = self.bind_item(&node.target, &items, position);
        self.statements(&node.body);
        self.scope.frames.pop();
        self.stage.join(self.page);
        let body = self.stage.close(self.fragments);

        let mut otherwise = OpenBlock::default();
        if !node.else_body.is_empty() && !runs_always {
            let before = self.scope.snapshot();
            let (block, ()) = self.in_branch(|this| this.statements(&node.else_body));
            otherwise = block;
            // Where the loop has turns, names keep what they were: that is copied before it.
            let after_else = self.scope.restore(before.clone());
            let mut unchanged = OpenBlock::default();
            self.merge(&before, &mut unchanged, &after_else, &mut otherwise);
            for op in unchanged.ops {
                self.stage.push(op);
            }
        } else if runs_always && !node.else_body.is_empty() {
            let place = self.at(node);
            self.report
                .warning(place, "the `else` of this loop is never reached", "");
        }
        if body.ops.is_empty() && otherwise.ops.is_empty() && filter.is_none() {
            return result;
        }
        if node.filter_expr.is_some() && filter.is_none() {
            result = Err(Reported);
        }
        self.stage
            .push_for(body, otherwise, self.fragments, |body, otherwise| For {
                count,
                filter,
                position,
                index: registers.index,
                length: registers.length,
                body,
                otherwise,
            });
        result
    }

    /// What `for` goes through, or a mistake.
    pub(super) fn iterable(&mut self, items: Operand, place: Place<'a>) -> Result<Operand> {
        match items {
            Operand::List(_) | Operand::Range { .. } => Ok(items),
            Operand::Undefined => Ok(Operand::Range {
                start: Box::new(Operand::int(0)),
                step: 1,
                count: Box::new(Operand::int(0)),
            }),
            Operand::Poison => Err(Reported),
            other => {
                let message = format!("`for` cannot go through {}", other.describe());
                let hint =
                    "lists are: list parameters, rows of calls, range(...) and lists of constants";
                Err(self.error(place, message, hint))
            }
        }
    }

    pub(super) fn length_of(&mut self, list: &List) -> Operand {
        match &list.items {
            Items::Field(field) => Operand::register(self.stage.length(*field), Type::Int),
            Items::Tables { length, .. } => Operand::int(*length as i64),
        }
    }

    /// The item at a position.
    pub(super) fn item(&mut self, items: &Operand, position: Register) -> Result<Operand> {
        Ok(match items {
            Operand::List(list) if list.columns.len() == 1 && list.columns[0].0.is_empty() => {
                Operand::Column {
                    list: list.clone(),
                    column: 0,
                    position,
                }
            }
            Operand::List(list) => Operand::Row {
                list: list.clone(),
                position,
            },
            Operand::Range { start, step, .. } => {
                let position = Operand::register(position, Type::Int);
                let offset = if *step == 1 {
                    position
                } else {
                    self.integer_arithmetic(Arithmetic::Multiply, &position, &Operand::int(*step))?
                };
                match &**start {
                    Operand::Literal(Literal::Int(0)) => offset,
                    start => self.integer_arithmetic(Arithmetic::Add, start, &offset)?,
                }
            }
            _ => return Err(Reported),
        })
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
                let unnamed = |list: &Rc<List>| {
                    list.columns
                        .iter()
                        .all(|(name, _)| name.parse::<usize>().is_ok())
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
                    return Err(self.error(place, message, ""));
                }
                for (column, name) in names.items.iter().enumerate() {
                    let ast::Expr::Var(name) = name else {
                        self.poison(target);
                        return Err(self.unsupported(place, "unpacking within unpacking", ""));
                    };
                    let operand = Operand::Column {
                        list: list.clone(),
                        column: column as u16,
                        position,
                    };
                    self.scope.set(name.id, operand);
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

/// Where a statement stands.
fn span_of(statement: &Stmt<'_>) -> Span {
    match statement {
        Stmt::Template(node) => node.span(),
        Stmt::EmitExpr(node) => node.span(),
        Stmt::EmitRaw(node) => node.span(),
        Stmt::ForLoop(node) => node.span(),
        Stmt::IfCond(node) => node.span(),
        Stmt::WithBlock(node) => node.span(),
        Stmt::Set(node) => node.span(),
        Stmt::SetBlock(node) => node.span(),
        Stmt::AutoEscape(node) => node.span(),
        Stmt::FilterBlock(node) => node.span(),
        Stmt::Block(node) => node.span(),
        Stmt::Import(node) => node.span(),
        Stmt::FromImport(node) => node.span(),
        Stmt::Extends(node) => node.span(),
        Stmt::Include(node) => node.span(),
        Stmt::Macro(node) => node.span(),
        Stmt::CallBlock(node) => node.span(),
        Stmt::Do(node) => node.span(),
        #[allow(unreachable_patterns)]
        _ => Span::default(),
    }
}

fn join<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}
