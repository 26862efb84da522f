//! Filters that make one value of a list's: `sum`, `min`, `max`; and `map`, by which these and
//! others get at a column of records.

use super::compiler::{Compiler, Result};
use super::value::{Chosen, List, Literal, Operand, is_of_column};
use crate::diagnostic::{Place, did_you_mean_or};
use crate::program::{Arithmetic, Binary, Comparison, If, KeyUse, Op, Register, Type, Unary};
use minijinja::machinery::ast::Expr;
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    /// The list of plain values that a filter works on.
    pub(super) fn plain_list(
        &mut self,
        name: &str,
        value: &Operand,
        place: Place<'a>,
    ) -> Result<Rc<List>> {
        match value {
            Operand::List(list) if list.is_plain() => Ok(list.clone()),
            Operand::List(list) => {
                let first = list.columns.first().map_or("column", |(name, _)| name);
                let hint = format!("|map(attribute=\"{first}\")|{name}");
                Err(self.error(place, format!("`{name}` is for values, not records"), hint))
            }
            other => {
                let message = format!("`{name}` is for lists, not {}", other.describe());
                let hint = "a list parameter, or a column of rows: rows|map(attribute=\"column\")";
                Err(self.error(place, message, hint))
            }
        }
    }

    /// A column of a list's records, as a list.
    pub(super) fn map_filter(
        &mut self,
        value: &Operand,
        attribute: Option<&Expr<'_>>,
        place: Place<'a>,
    ) -> Result<Rc<List>> {
        let form = "rows|map(attribute=\"column\")";
        let Operand::List(list) = value else {
            let message = format!("{} has no records", value.describe());
            return Err(self.error(place, message, form));
        };
        let name = match attribute {
            None => None,
            Some(attribute) => match self.expression(attribute)? {
                Operand::Literal(Literal::Text { text, .. }) => Some(text),
                _ => None,
            },
        };
        let Some(name) = name else {
            let message = "the column must be named by a constant text";
            return Err(self.error(place, message, form));
        };
        self.column_named(list, &name, place)
    }

    /// The values of a column of records.
    pub(super) fn column_named(
        &mut self,
        list: &List,
        name: &str,
        place: Place<'a>,
    ) -> Result<Rc<List>> {
        match list.column_of(name).filter(|_| is_of_column(name)) {
            Some(column) if !list.is_plain() => Ok(Rc::new(list.column(column))),
            _ => {
                let columns = list.columns.iter().map(|(name, _)| name.as_str());
                let columns = columns.filter(|name| !name.is_empty() && is_of_column(name));
                let hint = did_you_mean_or(name, columns, "the items are plain values");
                Err(self.error(place, format!("the items have no `{name}`"), hint))
            }
        }
    }

    /// The number type of a list's values.
    fn number_type(&mut self, name: &str, list: &List, place: Place<'a>) -> Result<Type> {
        match list.columns[0].1 {
            Type::Text => {
                let hint = "`:int` or `:float` behind the column's name makes it one of numbers";
                let message = format!("`{name}` is for numbers, and these are texts");
                Err(self.error(place, message, hint))
            }
            Type::Bool => {
                let message = format!("`{name}` is for numbers, and these are booleans");
                Err(self.error(
                    place,
                    message,
                    "count with a loop: {% for x in list if x %}",
                ))
            }
            kind => Ok(kind),
        }
    }

    pub(super) fn sum(&mut self, list: &Rc<List>, place: Place<'a>) -> Result<Operand> {
        let kind = self.number_type("sum", list, place)?;
        let zero = match kind {
            Type::Int => Operand::int(0),
            _ => Operand::Literal(Literal::Float(0.0)),
        };
        let sum = self.copied(&zero, kind);
        self.each_value(list, kind, |this, item| {
            let added = (this.stage).other(kind, |to| {
                let (left, right) = (sum, item);
                Op::Arithmetic(Arithmetic::Add, Binary { to, left, right })
            });
            this.stage.push(Op::Copy(Unary {
                to: sum,
                from: added,
            }));
        })?;
        Ok(Operand::register(sum, kind))
    }

    /// The least or greatest of a list's values. Of an empty list there is none: its lane fails as
    /// where an item past the end is asked for.
    pub(super) fn extreme(
        &mut self,
        name: &str,
        list: &Rc<List>,
        place: Place<'a>,
    ) -> Result<Operand> {
        if list.columns[0].1 == Type::Text {
            return self.extreme_text(name, list);
        }
        let kind = self.number_type(name, list, place)?;
        let first = self.item_at(list, &Operand::int(0))?;
        let best = self.copied(&first, kind);
        let comparison = match name {
            "min" => Comparison::Less,
            _ => Comparison::Greater,
        };
        self.each_value(list, kind, |this, item| {
            let is_better = this.stage.other(Type::Bool, |to| {
                let (left, right) = (item, best);
                Op::Compare(comparison, Binary { to, left, right })
            });
            this.stage.push(Op::If(If {
                condition: is_better,
                then: vec![Op::Copy(Unary {
                    to: best,
                    from: item,
                })],
                otherwise: Vec::new(),
            }));
        })?;
        Ok(Operand::register(best, kind))
    }

    /// Of texts: the first or the last where they are sorted in any case, as MiniJinja has it.
    fn extreme_text(&mut self, name: &str, list: &Rc<List>) -> Result<Operand> {
        let by = KeyUse::Sort {
            descending: false,
            ignores_case: true,
        };
        let mut sorted = (**list).clone();
        sorted.chosen.push(Chosen::By(by, Rc::new(list.all())));
        let end = if name == "min" { "first" } else { "last" };
        let position = self.end_of(end, &Rc::new(sorted.clone()))?;
        self.checked_item(&Rc::new(sorted), position)
    }

    /// A register of its own with a value.
    pub(super) fn copied(&mut self, operand: &Operand, kind: Type) -> Register {
        let from = self.register(operand);
        let to = self.stage.new_register(kind);
        self.stage.push(Op::Copy(Unary { to, from }));
        to
    }

    /// A loop through a list of values.
    fn each_value(
        &mut self,
        list: &Rc<List>,
        kind: Type,
        body: impl FnOnce(&mut Self, Register),
    ) -> Result<()> {
        self.through(list, |this, position, _| {
            let item = this.item(&Operand::List(list.clone()), position)?;
            let item = this.register(&item);
            debug_assert_eq!(this.stage.kind_of(item), kind);
            body(this, item);
            Ok(())
        })?
    }
}
