//! `|default`, and what may not be there: names, items of lists, characters of texts.

use super::build::OpenBlock;
use super::compiler::{Compiler, Result};
use super::value::{List, Operand};
use crate::diagnostic::Place;
use crate::program::{Arithmetic, Register, Type};
use minijinja::machinery::ast::Expr;
use std::rc::Rc;

/// What an expression is, before it is looked whether that is there.
pub(super) enum Element {
    /// The item of a list at a position among all of its items, if it has so many.
    Item {
        list: Rc<List>,
        position: Register,
    },
    /// A character of a text, empty without one.
    Character(Operand),
    Value(Operand),
}

impl<'a> Compiler<'_, 'a> {
    /// What an expression is, [`Operand::Undefined`] for a name or a chain of names without value.
    pub(super) fn element(&mut self, expression: &Expr<'_>) -> Result<Element> {
        match expression {
            Expr::Filter(node) if matches!(node.name, "first" | "last") && node.args.is_empty() => {
                let Some(of) = &node.expr else {
                    return Ok(Element::Value(self.expression(expression)?));
                };
                let place = self.origin.at(node.span());
                match self.expression(of)? {
                    Operand::List(list) => {
                        let position = self.end_of(node.name, &list)?;
                        Ok(Element::Item { list, position })
                    }
                    value => {
                        let end = self.apply(node.name, value, &[], place)?;
                        Ok(Element::Character(end))
                    }
                }
            }
            Expr::GetItem(node) => {
                let place = self.place_of(expression);
                match self.nested(place, |this| this.item_of(node, place))? {
                    Element::Value(value) => Ok(Element::Value(self.usable(value, expression)?)),
                    item => Ok(item),
                }
            }
            other => Ok(Element::Value(self.optional(other)?)),
        }
    }

    /// The position of a list's first or last item.
    pub(super) fn end_of(&mut self, name: &str, list: &Rc<List>) -> Result<Register> {
        let index = match name {
            "first" => Operand::int(0),
            _ => {
                let length = self.length_of(list)?;
                self.integer_arithmetic(Arithmetic::Subtract, &length, &Operand::int(1))?
            }
        };
        self.position_of(list, &index)
    }

    pub(super) fn default_of(
        &mut self,
        value: Element,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let mut lax = match arguments[1] {
            None => false,
            Some(lax) => match self.condition(lax)? {
                Operand::Literal(literal) => literal.truth(),
                _ => {
                    return Err(self.error(
                        place,
                        "the second argument of `default` must be constant",
                        "true has it stand for what is empty, too",
                    ));
                }
            },
        };
        let value = match value {
            Element::Value(Operand::Perhaps { there, of }) => {
                let of = (OpenBlock::default(), *of);
                self.value_or(there, of, arguments[0], place)?
            }
            Element::Value(value) => value,
            // Of a text without characters there is no first one.
            Element::Character(value) => {
                lax = true;
                value
            }
            Element::Item { list, position } if list.is_plain() => {
                let is_there = self.is_position(&list, position)?;
                self.stage.open();
                let item = self.item(&Operand::List(list), position);
                let block = self.stage.close(self.fragments);
                self.value_or(is_there, (block, item?), arguments[0], place)?
            }
            // Of what has no such record there is no default either.
            Element::Item { list, position } => self.checked_item(&list, position)?,
        };
        if lax && matches!(value, Operand::List(_)) {
            let hint = "{% for x in list %}...{% else %}...{% endfor %} says what there is without";
            return Err(self.error(place, "a list that may be empty has no default", hint));
        }
        if value != Operand::Undefined && !(lax && value.scalar().is_some()) {
            return Ok(value);
        }
        if let Operand::Literal(literal) = &value
            && literal.truth()
        {
            return Ok(value);
        }
        if matches!(value, Operand::Undefined | Operand::Literal(_)) {
            return match arguments[0] {
                Some(other) => self.expression(other),
                None => Ok(Operand::text("")),
            };
        }
        let register = self.register(&value);
        let condition = match value.scalar() {
            Some((Type::Bool, _)) => register,
            _ => self.stage.truth(register),
        };
        self.value_or(
            condition,
            (OpenBlock::default(), value),
            arguments[0],
            place,
        )
    }

    /// A value, where the condition holds, or its default.
    fn value_or(
        &mut self,
        condition: Register,
        value: (OpenBlock, Operand),
        other: Option<&Expr<'_>>,
        place: Place<'a>,
    ) -> Result<Operand> {
        self.stage.open();
        let other = match other {
            Some(other) => self.expression(other),
            None => Ok(Operand::text("")),
        };
        let block = self.stage.close(self.fragments);
        self.select(condition, value, (block, other?))
            .map_err(|reason| {
                let hint = "a default is of the type that the value has: 0 for an integer";
                self.error(place, format!("this has no single type: {reason}"), hint)
            })
    }
}
