//! Values as JSON (RFC 8259): outputs of pages whose content type is JSON's, `|tojson`, and pages
//! that say what they answer by `json` instead of a template.
//!
//! Lists become arrays, records objects, and what there is not `null`. A float that is no number of
//! JSON (infinite, or none) is `null`, too.

use super::compiler::{Compiler, Result};
use super::step::with_expression;
use super::value::{List, Literal, Operand, Printed, is_of_column};
use crate::diagnostic::{Place, Reported};
use crate::program::{Arithmetic, Comparison, Escape, Type};
use crate::source::PageFile;
use crate::source::declaration::JsonMember;
use minijinja::machinery::ast::Expr;
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    /// Writes a value as JSON.
    pub(super) fn json(&mut self, operand: &Operand, place: Place<'a>) -> Result<()> {
        match self.is_null(operand, place)? {
            Some(is_null) => self.branch(
                is_null,
                |this| write(this, "null"),
                |this| this.json_of(operand, place),
            ),
            None => self.json_of(operand, place),
        }
    }

    /// A value as JSON, as a text. It is safe to print but within double quotes, which its own end.
    pub(super) fn json_text(&mut self, value: &Operand, place: Place<'a>) -> Result<Operand> {
        let text = self.capture(|this| this.json(value, place))?;
        // Numbers and truth values have none.
        Ok(match value.scalar() {
            Some((Type::Int | Type::Float | Type::Bool, _)) => text,
            _ => self.note(text, Printed::Json),
        })
    }

    /// Writes a value that is there as JSON.
    fn json_of(&mut self, operand: &Operand, place: Place<'a>) -> Result<()> {
        match operand {
            Operand::None | Operand::Undefined => self.stage.write_text("null"),
            Operand::Literal(Literal::Bool(value)) => self.stage.write_text(truth(*value)),
            Operand::Literal(Literal::Float(value)) if !value.is_finite() => {
                self.stage.write_text("null");
            }
            Operand::List(list) => return self.json_array(list, place),
            Operand::Row { list, position } => {
                let members = self.members_of_row(list, *position);
                return self.json_object(&members, place);
            }
            Operand::Record(names) | Operand::Errors { of: names, .. } => {
                let names = names.iter();
                let members = names.map(|(name, operand)| (name.clone(), operand.clone()));
                return self.json_object(&members.collect::<Vec<_>>(), place);
            }
            Operand::Map(pairs) => {
                let members: Vec<_> = (pairs.iter())
                    .map(|(key, operand)| (key.print().to_string(), operand.clone()))
                    .collect();
                return self.json_object(&members, place);
            }
            Operand::Session { present, user } => {
                let [present, user] = [*present, *user].map(|field| Operand::Field {
                    field,
                    kind: Type::Int,
                });
                let present = self.compare(Comparison::NotEqual, &present, &Operand::int(0), place);
                let mut members = vec![
                    ("present".to_owned(), present?),
                    ("userid".to_owned(), user),
                ];
                let stored = self.page.fields_of_sessions.clone();
                for (index, field) in (0..).zip(&*stored) {
                    let value = self.stored(index, field.kind)?;
                    members.push((field.name.clone(), value));
                }
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                return self.json_object(&members, place);
            }
            _ => match operand.scalar() {
                Some((Type::Text, _)) => {
                    // A text that is safe elsewhere is a text like any other here.
                    let text = operand.clone().not_safe();
                    self.stage.write_text("\"");
                    self.print(&text, Escape::Json, place)?;
                    self.stage.write_text("\"");
                }
                Some((Type::Bool, _)) => {
                    return self.branch(
                        operand.clone(),
                        |this| write(this, truth(true)),
                        |this| write(this, truth(false)),
                    );
                }
                Some((Type::Float, _)) => {
                    // Of all others, what is left of one after it is taken from itself is not 0.
                    let float = self.register(operand);
                    let left =
                        (self.stage).arithmetic(Arithmetic::Subtract, Type::Float, float, float);
                    let zero = self.register(&Operand::Literal(Literal::Float(0.0)));
                    let is_number = self.stage.compare(Comparison::Equal, left, zero);
                    return self.branch(
                        Operand::register(is_number, Type::Bool),
                        |this| this.print(operand, Escape::None, place),
                        |this| write(this, "null"),
                    );
                }
                Some((Type::Int, _)) => return self.print(operand, Escape::None, place),
                None if *operand == Operand::Poison => return Err(Reported),
                None => return Err(self.not_printable(operand, place)),
            },
        }
        Ok(())
    }

    /// A page that answers otherwise has no template: what there is is reported.
    pub(super) fn no_template(&mut self, file: &PageFile<'a>, hint: &str) {
        let text = &file.template.text[file.template.offset..];
        let blank = text.len() - text.trim_start().len();
        if blank < text.len() {
            let place = Place {
                offset: file.template.offset + blank,
                ..file.template
            };
            self.error(place, "this is never shown", hint);
        }
    }

    /// Compiles what a page file answers: its template, or what it says by `json`.
    pub(super) fn body_of(&mut self, file: &'a PageFile<'a>) {
        let members = &file.header.json;
        if members.is_empty() {
            if let Some(Some(template)) = self.library.get(file.path) {
                self.page_template(file.path, template);
            }
            self.forms.end(self.report);
            return;
        }
        self.no_template(file, "a page that says `json` has no template");
        let _ = self.json_page(members);
    }

    fn json_page(&mut self, members: &'a [JsonMember<'a>]) -> Result<()> {
        let mut result = Ok(());
        for (at, member) in members.iter().enumerate() {
            self.stage.write_text(if at == 0 { "{" } else { "," });
            self.json_name(&member.name.value);
            let written = with_expression(self, &member.value, |this, expression| {
                this.json_expression(expression)
            });
            result = result.and(written);
        }
        self.stage.write_text("}");
        result
    }

    /// Writes an expression's value. The branches of a condition need not be of one type.
    fn json_expression(&mut self, expression: &Expr<'_>) -> Result<()> {
        let place = self.place_of(expression);
        if let Expr::IfExpr(node) = expression {
            let condition = self.condition(&node.test_expr)?;
            return self.branch(
                condition,
                |this| this.json_expression(&node.true_expr),
                |this| match &node.false_expr {
                    Some(expression) => this.json_expression(expression),
                    None => this.json(&Operand::Undefined, place),
                },
            );
        }
        let operand = self.expression(expression)?;
        self.json(&operand, place)
    }

    fn json_name(&mut self, name: &str) {
        let name = super::output::escape_literal(name, Escape::Json);
        self.stage.write_text(&format!("\"{name}\":"));
    }

    fn json_object(&mut self, members: &[(String, Operand)], place: Place<'a>) -> Result<()> {
        if members.is_empty() {
            self.stage.write_text("{}");
            return Ok(());
        }
        for (at, (name, value)) in members.iter().enumerate() {
            self.stage.write_text(if at == 0 { "{" } else { "," });
            self.json_name(name);
            self.json(value, place)?;
        }
        self.stage.write_text("}");
        Ok(())
    }

    /// The columns of an item of a list.
    fn members_of_row(&self, list: &Rc<List>, position: u16) -> Vec<(String, Operand)> {
        let columns = (0..).zip(&list.columns);
        let columns = columns.filter(|(_, (name, _))| is_of_column(name));
        let member = |(column, (name, _)): (u16, &(String, Type))| {
            let operand = Operand::Column {
                list: list.clone(),
                column,
                position,
            };
            (name.clone(), operand)
        };
        columns.map(member).collect()
    }

    fn json_array(&mut self, list: &Rc<List>, place: Place<'a>) -> Result<()> {
        self.stage.write_text("[");
        self.stage.fork(self.page);
        let turn = |this: &mut Self, position, index| {
            let written = this.json_item(list, position, index, place);
            this.stage.join(this.page);
            written
        };
        let written = self.through(list, turn)?;
        self.stage.write_text("]");
        written
    }

    fn json_item(
        &mut self,
        list: &Rc<List>,
        position: u16,
        index: u16,
        place: Place<'a>,
    ) -> Result<()> {
        let is_first = self.compare(
            Comparison::Equal,
            &Operand::register(index, Type::Int),
            &Operand::int(0),
            place,
        )?;
        self.branch(is_first, |_| Ok(()), |this| write(this, ","))?;
        let item = self.item(&Operand::List(list.clone()), position)?;
        self.json(&item, place)
    }
}

fn write(compiler: &mut Compiler<'_, '_>, text: &str) -> Result<()> {
    compiler.stage.write_text(text);
    Ok(())
}

fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
