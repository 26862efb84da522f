//! Lists of texts' parts, what a filter makes of each item of a list, and lists of lists.

use super::compiler::{Compiler, Result};
use super::filter::{MAPPED_MAX, is_filter};
use super::scope::Frame;
use super::value::{Items, List, Literal, Mapping, Operand};
use crate::device::PLACE_LENGTH;
use crate::diagnostic::Place;
use crate::program::{Arithmetic, Cut, Formatting, Op, Type, Unary};
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, CallArg, Expr, Spanned};
use std::rc::Rc;

/// What they are called while it is applied: no page has such names.
const GIVEN: [&str; MAPPED_MAX] = ["given 0", "given 1", "given 2", "given 3", "given 4"];
/// Most lists that a list is made of, or items of each.
const NESTED_MAX: i64 = 1_000_000;

impl<'a> Compiler<'_, 'a> {
    /// `split`, `lines` and `list`: of a text its parts.
    pub(super) fn parts_filter(
        &mut self,
        name: &str,
        value: Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        if value.scalar().is_none_or(|(kind, _)| kind != Type::Text) {
            return match name {
                "list" => Ok(Operand::List(self.list_of(name, &value, place)?)),
                _ => {
                    let message = format!("`{name}` is for texts, not {}", value.describe());
                    Err(self.error(place, message, "`|string` makes a text of a number"))
                }
            };
        }
        let mut given = vec![value.clone()];
        let cut = match name {
            "lines" => Cut::Lines,
            "list" => Cut::Characters,
            _ => match self.separator(arguments, place)? {
                None => Cut::Words,
                Some(separator) => {
                    given.extend(separator);
                    Cut::Separated
                }
            },
        };
        // Of a text that is safe to print each character is not.
        let safe = value.is_safe() && name != "list";
        let text = self.register(&value);
        let places = self.formatted(Formatting::Places(cut), &given, false);
        let places = self.register(&places);
        let length = (self.stage).other(Type::Int, |to| {
            let from = places;
            Op::TextLength(Unary { to, from })
        });
        let length = Operand::register(length, Type::Int);
        let each = Operand::int(PLACE_LENGTH as i64);
        let count = self.integer_arithmetic(Arithmetic::FloorDivide, &length, &each)?;
        let parts = Items::Parts {
            text,
            places,
            count: self.register(&count),
            safe,
        };
        Ok(List::plain(parts, Type::Text))
    }

    /// What `split` is given: where a text is cut, and how often; nothing for its words.
    fn separator(
        &mut self,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Option<[Operand; 2]>> {
        let separator = match arguments[0] {
            None => Operand::None,
            Some(separator) => self.expression(separator)?,
        };
        let most = match arguments[1] {
            None => Operand::int(-1),
            Some(most) => self.expression(most)?,
        };
        let form =
            "text|split(\",\"), text|split(\",\", 1) for two parts at most, text|split for words";
        if most.scalar().is_none_or(|(kind, _)| kind != Type::Int) {
            return Err(self.error(place, "how often `split` cuts is an integer", form));
        }
        match separator {
            Operand::None if arguments[1].is_none() => Ok(None),
            separator
                if separator
                    .scalar()
                    .is_some_and(|(kind, _)| kind == Type::Text) =>
            {
                Ok(Some([separator, most]))
            }
            _ => Err(self.error(place, "what `split` cuts at is a text", form)),
        }
    }

    /// `map("filter", ...)`: what a filter makes of each item.
    pub(super) fn mapping(
        &mut self,
        value: &Operand,
        filter: &Expr<'_>,
        given: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let list = self.list_of("map", value, place)?;
        let at = self.place_of(filter);
        let Operand::Literal(Literal::Text { text, .. }) = self.expression(filter)? else {
            let hint = "texts|map(\"upper\"), or a column: rows|map(attribute=\"column\")";
            return Err(self.error(at, "a filter is named by a constant text", hint));
        };
        if !list.is_plain() && list.column_of(&text).is_some() && !is_filter(&text) {
            let message = format!("there is no filter `{text}`, but a column");
            let hint = format!("|map(attribute=\"{text}\")");
            return Err(self.error(at, message, hint));
        }
        let given = given.iter().copied().flatten();
        let given = given.map(|argument| self.expression(argument));
        let by = Rc::new(Mapping {
            filter: text.to_string(),
            given: given.collect::<Result<_>>()?,
        });
        // What comes of one tells of what type they are, and what is wrong with the filter.
        self.stage.open();
        let position = self.stage.new_register(Type::Int);
        let item = self.item(&Operand::List(list.clone()), position);
        let made = item.and_then(|item| self.mapped_at(&by, item, at));
        self.stage.close(self.fragments);
        let made = made?;
        let Some((kind, safe)) = made.scalar() else {
            let message = format!(
                "`{}` makes {} of each item here",
                by.filter,
                made.describe()
            );
            let hint = "filters that make texts, numbers or booleans can be mapped";
            return Err(self.error(at, message, hint));
        };
        let chosen = list.chosen.clone();
        let of = Rc::new(list.all());
        Ok(Operand::List(Rc::new(List {
            items: Items::Mapped { of, by, safe },
            columns: vec![(String::new(), kind)],
            status: None,
            chosen,
        })))
    }

    /// What a filter makes of an item. What is wrong with it was told where it is written.
    pub(super) fn mapped(&mut self, by: &Mapping, item: Operand) -> Result<Operand> {
        let place = self.origin.place(0);
        self.mapped_at(by, item, place)
    }

    fn mapped_at(&mut self, by: &Mapping, item: Operand, place: Place<'a>) -> Result<Operand> {
        // Filters take expressions: what they are given has names for as long.
        let mut names = Frame::default();
        let mut arguments = Vec::new();
        for (name, given) in GIVEN.into_iter().zip(&by.given) {
            names.locals.insert(name.to_owned(), given.clone());
            let name = Spanned::new(ast::Var { id: name }, Span::default());
            arguments.push(CallArg::Pos(Expr::Var(name)));
        }
        self.scope.frames.push(names);
        let made = self
            .filter_arguments(&by.filter, &arguments, place)
            .and_then(|arguments| self.apply(&by.filter, item, &arguments, place));
        self.scope.frames.pop();
        made
    }

    /// `batch(n)`: lists of n items each; `slice(n)`: n lists.
    pub(super) fn nested_filter(
        &mut self,
        name: &str,
        value: &Operand,
        number: Option<&Expr<'_>>,
        place: Place<'a>,
    ) -> Result<Operand> {
        let of = self.list_of(name, value, place)?;
        if number.is_none() {
            let message = match name {
                "batch" => "`batch` needs to know how many items each list has",
                _ => "`slice` needs to know how many lists there are",
            };
            let hint = format!("{{% for row in rows|{name}(3) %}}{{% for x in row %}}");
            return Err(self.error(place, message, hint));
        }
        let number = self.constant_int("this number", number, 1, (1, NESTED_MAX))?;
        let length = Box::new(self.length_of(&of)?);
        let items = match name {
            "batch" => Items::Batches {
                of,
                size: number,
                length,
            },
            _ => Items::Slices {
                of,
                count: number,
                length,
            },
        };
        Ok(List::of(items, Vec::new()))
    }
}
