//! Statements of templates: from MiniJinja's syntax tree to operations.
//!
//! Compiling follows what MiniJinja's machine would do, statement by statement, with operands in
//! place of values.

use super::compiler::{Compiler, MacroDefinition, Result};
use super::scope::Frame;
use super::value::Operand;
use crate::diagnostic::{Place, Reported};
use crate::program::{Csrf, Escape};
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, Stmt};

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
            Stmt::EmitRaw(node) => {
                if !self.stage.is_discarding() {
                    let (origin, start) = (self.origin, node.span().start_offset as usize);
                    (self.forms).text(node.raw, |at| origin.place(start + at), self.report);
                }
                self.stage.write_text(node.raw);
            }
            Stmt::EmitExpr(node) => return self.emit(&node.expr),
            Stmt::IfCond(node) => return self.if_statement(node),
            Stmt::ForLoop(node) => return self.for_statement(node),
            Stmt::Set(node) => return self.set_statement(&node.target, &node.expr),
            Stmt::SetBlock(node) => return self.set_block(node),
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
            Stmt::Import(node) => return self.import_statement(node),
            Stmt::FromImport(node) => return self.names_import_statement(node),
            Stmt::Macro(node) => {
                self.warn_of_macro_before(node.name, node, self.at(node));
                let closure = self.scope.enclose();
                self.macros.push(MacroDefinition {
                    definition: node,
                    origin: self.origin,
                    place: self.at(node),
                    closure,
                });
                self.scope
                    .set(node.name, Operand::Macro(self.macros.len() - 1));
            }
            other => return Err(self.unsupported_statement(other)),
        }
        Ok(())
    }

    /// Reports a statement that MiniJinja has and pages have not.
    fn unsupported_statement(&mut self, statement: &'a Stmt<'a>) -> Reported {
        let (place, what, hint) = match statement {
            Stmt::AutoEscape(node) => {
                let hint = "`|safe` prints one value unescaped";
                (self.at(node), "`autoescape`", hint)
            }
            Stmt::FilterBlock(node) => {
                let hint = "apply the filter to each value";
                (self.at(node), "a `filter` block", hint)
            }
            Stmt::CallBlock(node) => {
                let hint = "a macro takes no block: {{ box(title) }} gives it what differs, and \
                            markup that differs goes round `include` or into a `block`";
                (self.at(node), "a `call` block", hint)
            }
            Stmt::Do(node) => {
                let hint = "expressions have no effect here";
                (self.at(node), "`do`", hint)
            }
            // Further statements exist where another crate of the build switches on further
            // features of the parser.
            _ => {
                let hint = "docs/pages.md has those there are";
                (self.origin.place(0), "this statement", hint)
            }
        };
        self.unsupported(place, what, hint)
    }

    /// `{{ expression }}`
    pub(super) fn emit(&mut self, expression: &'a ast::Expr<'a>) -> Result<()> {
        let place = self.place_of(expression);
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
                        None => this.put(&Operand::Undefined, place),
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
        self.put(&operand, place)
    }

    /// Prints a value as the page's content type asks for.
    fn put(&mut self, operand: &Operand, place: Place<'a>) -> Result<()> {
        match self.escape {
            Escape::Json if !operand.is_safe() => self.json(operand, place),
            escape => self.print(operand, escape, place),
        }
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
            // A token has nothing to escape.
            Operand::CsrfInput => {
                let [before, behind] = Csrf::INPUT_AROUND;
                let token = self.csrf_token(place)?;
                self.stage.write_text(before);
                self.print(&token, Escape::None, place)?;
                self.stage.write_text(behind);
            }
            _ => {
                if self
                    .stage
                    .write(operand, escape, self.page, self.fragments)
                    .is_none()
                {
                    return Err(self.not_printable(operand, place));
                }
            }
        }
        Ok(())
    }

    /// Reports a value that has no text.
    pub(super) fn not_printable(&mut self, operand: &Operand, place: Place<'a>) -> Reported {
        let message = format!("{} cannot be printed", operand.describe());
        let hint = match operand {
            Operand::Record(names) | Operand::Errors { of: names, .. } => {
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
            operand => operand.parts().to_owned(),
        };
        self.error(place, message, hint)
    }

    pub(super) fn set_statement(
        &mut self,
        target: &'a ast::Expr<'a>,
        value: &'a ast::Expr<'a>,
    ) -> Result<()> {
        let name = self.name_set(target)?;
        let operand = self.expression(value);
        self.scope
            .set(name, operand.as_ref().map_or(Operand::Poison, Clone::clone));
        operand.map(|_| ())
    }

    /// `{% set name %}...{% endset %}`: a text that is safe, for its outputs are escaped.
    fn set_block(&mut self, node: &'a ast::Spanned<ast::SetBlock<'a>>) -> Result<()> {
        let name = self.name_set(&node.target)?;
        if node.filter.is_some() {
            let place = self.origin.at(node.span());
            let hint = "apply the filter where the name is printed";
            return Err(self.unsupported(place, "a filter of a `set` block", hint));
        }
        let text = self.capture(|this| {
            this.statements(&node.body);
            Ok(())
        });
        self.scope.set(name, text?);
        Ok(())
    }

    /// The name that `set` sets.
    fn name_set(&mut self, target: &'a ast::Expr<'a>) -> Result<&'a str> {
        let ast::Expr::Var(target) = target else {
            let place = self.place_of(target);
            let hint = "set one name at a time; there are no namespaces";
            return Err(self.error(place, "`set` sets one name", hint));
        };
        Ok(target.id)
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
