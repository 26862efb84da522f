//! Statements of templates: from MiniJinja's syntax tree to operations.
//!
//! Compiling follows what MiniJinja's machine would do, statement by statement, with operands in
//! place of values.

use super::compiler::{Compiler, Left, MacroDefinition, Result};
use super::context::Context;
use super::scope::Frame;
use super::value::{Operand, Printed, is_of_column};
use crate::diagnostic::{Place, Reported};
use crate::program::{Csrf, Escape, Type};
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, Stmt};

impl<'a> Compiler<'_, 'a> {
    /// Compiles statements. A mistake in one does not hide those of the next.
    pub(super) fn statements(&mut self, statements: &'a [Stmt<'a>]) {
        for (at, statement) in statements.iter().enumerate() {
            if self.exhausted {
                return;
            }
            let place = self.origin.at(span_of(statement));
            let _ = self.nested(place, |this| this.statement(statement));
            if self.left != Left::No {
                let rest = &statements[at + 1..];
                let _ = self.nested(place, |this| {
                    this.rest_of_turn(rest);
                    Ok(())
                });
                return;
            }
        }
    }

    pub(super) fn statement(&mut self, statement: &'a Stmt<'a>) -> Result<()> {
        match statement {
            Stmt::Template(node) => self.statements(&node.children),
            Stmt::EmitRaw(node) => {
                if !self.stage.is_discarding() {
                    let (origin, start) = (self.origin, node.span().start_offset as usize);
                    let place = |at| origin.place(start + at);
                    (self.forms).text(node.raw, place, self.report);
                    if self.escape == Escape::Html {
                        (self.context).text(node.raw, place, &mut self.leads);
                    }
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
                if std::mem::take(&mut self.left) != Left::No {
                    let message = "a turn does not end within a `with` block";
                    let hint = "a name that is `set` in a loop lasts for a turn, too";
                    return Err(self.error(self.at(node), message, hint));
                }
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
            Stmt::FilterBlock(node) => {
                let place = self.at(node);
                // What stands in it is printed where it stands; but as JSON it may be in scripts.
                let context = match is_made_json(&node.filter) {
                    true => Context::default(),
                    false => self.context.clone(),
                };
                let text = self.capture_statements(&node.body, context, place)?;
                let made = self.filtered(text, &node.filter)?;
                return self.put(&made, place);
            }
            Stmt::Do(node) => drop(self.call(&node.call)?),
            Stmt::Break(node) => return self.leave_turn(true, self.at(node)),
            Stmt::Continue(node) => return self.leave_turn(false, self.at(node)),
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
            Stmt::CallBlock(node) => {
                let hint = "a macro takes no block: {{ box(title) }} gives it what differs, and \
                            markup that differs goes round `include` or into a `block`";
                (self.at(node), "a `call` block", hint)
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
        if self.escape == Escape::Html && !self.stage.is_discarding() {
            let printed = self.printed(operand);
            (self.context).output(printed, place, self.report);
            if matches!(printed, Printed::Open | Printed::Path)
                && let Some(other) = &self.unlike_html
            {
                let message = format!("this is escaped as HTML, in a page of {other}");
                let hint = "text/plain is not escaped; a text marked by |safe is not, either: in \
                            CSV {{ '\"' ~ x|replace('\"', '\"\"') ~ '\"' }} in a block of \
                            {% filter safe %}";
                self.report.warning(place, message, hint);
            }
        }
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
            Operand::Perhaps { there, of } => {
                return self.branch(
                    Operand::register(*there, Type::Bool),
                    |this| this.print(of, escape, place),
                    |_| Ok(()),
                );
            }
            // A token has nothing to escape.
            Operand::CsrfInput => {
                let [before, behind] = Csrf::INPUT_AROUND;
                let token = self.csrf_token(place)?;
                self.stage.write_text(before);
                self.print(&token, Escape::None, place)?;
                self.stage.write_text(behind);
            }
            _ => {
                // A number that is null is printed as a text is that is.
                if operand.scalar().is_some_and(|(kind, _)| kind != Type::Text)
                    && let Some(is_null) = self.is_null(operand, place)?
                {
                    return self.branch(
                        is_null,
                        |_| Ok(()),
                        |this| this.write(operand, escape, place),
                    );
                }
                return self.write(operand, escape, place);
            }
        }
        Ok(())
    }

    /// Prints a value that there is.
    fn write(&mut self, operand: &Operand, escape: Escape, place: Place<'a>) -> Result<()> {
        let written = (self.stage).write(operand, escape, self.page, self.fragments);
        match written {
            Some(()) => Ok(()),
            None => Err(self.not_printable(operand, place)),
        }
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
            Operand::List(list) if list.is_plain() => {
                "|join(\", \") makes a text of it, and `for` goes through it".to_owned()
            }
            Operand::List(_) => "go through it with `for`, or use `|length`".to_owned(),
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
        if let ast::Expr::List(names) = target {
            return self.set_several(&names.items, value);
        }
        let operand = self.expression(value);
        self.assign(target, operand)
    }

    /// `{% set a, b = x, y %}`: all values are computed before any name is set.
    fn set_several(&mut self, names: &'a [ast::Expr<'a>], value: &'a ast::Expr<'a>) -> Result<()> {
        let values = match value {
            ast::Expr::Tuple(values) => &values.items[..],
            ast::Expr::List(values) => &values.items[..],
            _ => &[],
        };
        if values.len() != names.len() {
            names.iter().for_each(|name| self.poison(name));
            let place = self.place_of(value);
            let hint = "{% set a, b = 1, 2 %}";
            return Err(self.error(place, "there is not one value for each name", hint));
        }
        let values: Vec<_> = values.iter().map(|value| self.expression(value)).collect();
        let mut result = Ok(());
        for (name, value) in names.iter().zip(values) {
            result = result.and(self.assign(name, value));
        }
        result
    }

    /// Gives a name, or one of a namespace, a value.
    fn assign(&mut self, target: &'a ast::Expr<'a>, value: Result<Operand>) -> Result<()> {
        match target {
            ast::Expr::Var(name) => {
                let operand = value.as_ref().map_or(Operand::Poison, Clone::clone);
                self.scope.set(name.id, operand);
                value.map(|_| ())
            }
            ast::Expr::GetAttr(node) => {
                let namespace = self.expression(&node.expr)?;
                self.set_in_namespace(&namespace, node.name, value?, self.at(node))
            }
            other => {
                let place = self.place_of(other);
                let hint = "{% set a, b = 1, 2 %}";
                Err(self.error(place, "`set` sets names", hint))
            }
        }
    }

    /// `{% set name %}...{% endset %}`: a text that is safe, for its outputs are escaped.
    fn set_block(&mut self, node: &'a ast::Spanned<ast::SetBlock<'a>>) -> Result<()> {
        let text = self.capture_statements(&node.body, Context::default(), self.at(node));
        let text = match &node.filter {
            Some(filter) => text.and_then(|text| self.filtered(text, filter)),
            None => text,
        };
        self.assign(&node.target, text)
    }

    /// What statements write, which is to stand there in HTML.
    fn capture_statements(
        &mut self,
        statements: &'a [Stmt<'a>],
        context: Context,
        place: Place<'a>,
    ) -> Result<Operand> {
        let text = self.capture(|this| {
            this.context = context;
            this.statements(statements);
            Ok(())
        })?;
        if std::mem::take(&mut self.left) != Left::No {
            let message = "a turn does not end within a text that is being made";
            let hint = "put `break` and `continue` before or behind the block";
            return Err(self.error(place, message, hint));
        }
        Ok(text)
    }

    /// What the filters of a block make of what stands in it.
    fn filtered(&mut self, text: Operand, filters: &ast::Expr<'a>) -> Result<Operand> {
        let around = self.of_block.replace(text);
        let made = self.expression(filters);
        self.of_block = around;
        made
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

/// Whether one of the filters of a block makes JSON.
fn is_made_json(filters: &ast::Expr<'_>) -> bool {
    match filters {
        ast::Expr::Filter(filter) => {
            filter.name == "tojson" || filter.expr.as_ref().is_some_and(is_made_json)
        }
        _ => false,
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
        Stmt::Break(node) => node.span(),
        Stmt::Continue(node) => node.span(),
        #[allow(unreachable_patterns)]
        _ => Span::default(),
    }
}

fn join<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let names = names.map(String::as_str);
    names
        .filter(|name| is_of_column(name))
        .collect::<Vec<_>>()
        .join(", ")
}
