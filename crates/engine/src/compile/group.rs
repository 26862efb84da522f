//! `groupby`: the items of a list that have the same in a column, group by group.
//!
//! A group has no list of its own: what it is of is gone through again, for the items with its key.
//! Where it stands in the order of all groups its last item does, which is the one that MiniJinja
//! has its key of.

use super::compiler::{Compiler, Result};
use super::value::{Chosen, Grouping, Items, List, Literal, Operand};
use crate::diagnostic::Place;
use crate::program::{Formatting, KeyUse, Register, Type};
use minijinja::machinery::ast::Expr;
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    /// `groupby("column")`: the groups in the order of their keys.
    pub(super) fn group_filter(
        &mut self,
        value: &Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let of = self.list_of("groupby", value, place)?;
        let form = "{% for kind, items in rows|groupby(\"kind\") %}";
        let Some(attribute) = arguments[0] else {
            return Err(self.error(place, "`groupby` needs a column of the records", form));
        };
        let at = self.place_of(attribute);
        let Operand::Literal(Literal::Text { text, .. }) = self.expression(attribute)? else {
            return Err(self.error(at, "a column is named by a constant text", form));
        };
        let by = Grouping {
            column: self.column_named(&of.all(), &text, at)?,
            ignores_case: !self.constant_bool("`case_sensitive`", arguments[1])?,
        };
        let sorted = KeyUse::Sort {
            descending: false,
            ignores_case: by.ignores_case,
        };
        let last_of_each = [
            Chosen::By(sorted, by.column.clone()),
            Chosen::Reverse,
            Chosen::UniqueInGroups(by.clone()),
            Chosen::Reverse,
        ];
        let chosen = of.chosen.iter().cloned().chain(last_of_each).collect();
        Ok(Operand::List(Rc::new(List {
            items: Items::Groups { of, by },
            columns: Vec::new(),
            status: None,
            chosen,
        })))
    }

    /// The group of which an item is the last.
    pub(super) fn group(
        &mut self,
        of: &Rc<List>,
        by: &Grouping,
        position: Register,
    ) -> Result<Operand> {
        let grouper = self.item(&Operand::List(by.column.clone()), position)?;
        let key = self.group_key(by, position)?;
        let mut list = (**of).clone();
        list.chosen.push(Chosen::Group(by.clone(), key));
        Ok(Operand::Group {
            grouper: Box::new(grouper),
            list: Rc::new(list),
        })
    }

    /// What the item at a position has in common with those of its group.
    pub(super) fn group_key(&mut self, by: &Grouping, position: Register) -> Result<Register> {
        let item = self.item(&Operand::List(by.column.clone()), position)?;
        let is_text = item.scalar().is_some_and(|(kind, _)| kind == Type::Text);
        let key = match is_text && by.ignores_case {
            true => self.formatted(Formatting::LowerAscii, &[item], false),
            false => item,
        };
        Ok(self.register(&key))
    }
}
