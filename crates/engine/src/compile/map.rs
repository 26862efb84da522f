//! Maps: values by constant keys, known at load. What is looked up by a key that is not is compared
//! with each.

use super::build::OpenBlock;
use super::compiler::{Compiler, Result};
use super::value::{Items, List, Literal, Operand};
use crate::diagnostic::Place;
use crate::program::{Comparison, Type};
use minijinja::machinery::ast::{self, CallArg, Expr};
use std::rc::Rc;

/// A map's keys and values.
type Pairs = Vec<(Literal, Operand)>;

impl<'a> Compiler<'_, 'a> {
    /// `{"a": 1, "b": 2}`
    pub(super) fn map(&mut self, node: &ast::Map<'_>, place: Place<'a>) -> Result<Operand> {
        let mut pairs = Pairs::new();
        for (key, value) in node.keys.iter().zip(&node.values) {
            let at = self.place_of(key);
            let key = match self.expression(key)? {
                Operand::Literal(key) if matches!(key.kind(), Type::Text | Type::Int) => key,
                _ => {
                    let message = "the keys of a map are constant texts or integers";
                    return Err(self.error(at, message, "{\"name\": value}"));
                }
            };
            if pairs
                .first()
                .is_some_and(|(first, _)| first.kind() != key.kind())
            {
                let hint = "put all of them in quotes, or none";
                return Err(self.error(at, "the keys of a map are of one type", hint));
            }
            let value = self.expression(value)?;
            put(&mut pairs, key, value);
        }
        if pairs.is_empty() {
            return Err(self.error(place, "a map without keys has nothing", "{\"name\": value}"));
        }
        Ok(Operand::Map(Rc::new(pairs)))
    }

    /// `dict(a=1, b=2)`
    pub(super) fn dict(&mut self, arguments: &[CallArg<'_>], place: Place<'a>) -> Result<Operand> {
        let mut pairs = Pairs::new();
        for argument in arguments {
            let CallArg::Kwarg(name, value) = argument else {
                return Err(self.error(place, "`dict` takes names with values", "dict(a=1, b=2)"));
            };
            let value = self.expression(value)?;
            put(&mut pairs, Literal::text(name), value);
        }
        if pairs.is_empty() {
            return Err(self.error(place, "a map without keys has nothing", "dict(a=1, b=2)"));
        }
        Ok(Operand::Map(Rc::new(pairs)))
    }

    /// What a map has for a key that is not constant.
    pub(super) fn looked_up(
        &mut self,
        pairs: &[(Literal, Operand)],
        key: &Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        let kind = pairs[0].1.scalar();
        let is_alike = |(_, value): &(Literal, Operand)| value.scalar() == kind;
        let (Some((kind, safe)), true) = (kind, pairs.iter().all(is_alike)) else {
            let message = "the values of this map are not of one type";
            let hint = "a key that is not constant needs texts alone, or numbers of one kind";
            return Err(self.error(place, message, hint));
        };
        let there = self.copied(&Operand::bool(false), Type::Bool);
        let found = self.copied(&Operand::empty(kind, safe), kind);
        for (known, value) in pairs {
            let known = Operand::Literal(known.clone());
            let equal = self.compare(Comparison::Equal, key, &known, place)?;
            let condition = self.register(&equal);
            self.stage.open();
            self.copy_to(found, value);
            self.copy_to(there, &Operand::bool(true));
            let then = self.stage.close(self.fragments);
            let otherwise = OpenBlock::default();
            self.stage
                .push_if(condition, then, otherwise, self.fragments);
        }
        let of = Box::new(Operand::Register {
            register: found,
            kind,
            safe,
        });
        Ok(Operand::Perhaps { there, of })
    }

    /// The keys of a map, as a list.
    pub(super) fn keys_of(&mut self, pairs: &[(Literal, Operand)]) -> Operand {
        let keys: Vec<Literal> = pairs.iter().map(|(key, _)| key.clone()).collect();
        let tables = vec![self.table(&keys)];
        let length = keys.len();
        List::plain(Items::Tables { tables, length }, keys[0].kind())
    }

    /// `|items`, and `|dictsort`: pairs of keys and values.
    pub(super) fn pairs_filter(
        &mut self,
        name: &str,
        value: &Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let Operand::Map(pairs) = value else {
            let message = format!("`{name}` is for maps, not {}", value.describe());
            let hint = "{% for key, value in {\"a\": 1, \"b\": 2}|items %}";
            return Err(self.error(place, message, hint));
        };
        let mut known = Vec::new();
        for (key, value) in &**pairs {
            let Operand::Literal(value) = value else {
                let message = "the values of this map are not constant";
                let hint =
                    "a list of what there is: {% for name in [\"a\", \"b\"] %}{{ map[name] }}";
                return Err(self.error(place, message, hint));
            };
            known.push((key.clone(), value.clone()));
        }
        let kind = known[0].1.kind();
        let is_safe = |value: &Literal| matches!(value, Literal::Text { safe: true, .. });
        if known
            .iter()
            .any(|(_, value)| value.kind() != kind || is_safe(value))
        {
            let message = "the values of this map are not of one type";
            return Err(self.error(place, message, "all texts, or all numbers of one kind"));
        }
        if name == "dictsort" {
            let by_value = match arguments[0].map(|by| self.expression(by)).transpose()? {
                None => false,
                Some(Operand::Literal(Literal::Text { text, .. })) if &*text == "key" => false,
                Some(Operand::Literal(Literal::Text { text, .. })) if &*text == "value" => true,
                Some(_) => {
                    let message = "`dictsort` is by keys or by values";
                    return Err(self.error(place, message, "by=\"key\", or by=\"value\""));
                }
            };
            let case_sensitive = self.constant_bool("`case_sensitive`", arguments[1])?;
            let reverse = self.constant_bool("`reverse`", arguments[2])?;
            known.sort_by(|one, other| {
                let [one, other] = [one, other].map(|it| if by_value { &it.1 } else { &it.0 });
                let order = order(one, other, case_sensitive);
                if reverse { order.reverse() } else { order }
            });
        }
        let length = known.len();
        let (keys, values): (Vec<_>, Vec<_>) = known.into_iter().unzip();
        let columns = [&keys, &values].map(|column| column[0].kind());
        let tables = [&keys, &values].map(|column| self.table(column)).into();
        let columns = ["0", "1"].into_iter().map(str::to_owned).zip(columns);
        Ok(List::of(
            Items::Tables { tables, length },
            columns.collect(),
        ))
    }
}

/// Adds a pair, in place of one of the same key.
fn put(pairs: &mut Pairs, key: Literal, value: Operand) {
    match pairs.iter_mut().find(|(known, _)| *known == key) {
        Some(known) => known.1 = value,
        None => pairs.push((key, value)),
    }
}

/// The order of two constants of one type, as `sort` has it.
fn order(one: &Literal, other: &Literal, case_sensitive: bool) -> std::cmp::Ordering {
    match (one, other) {
        (Literal::Text { text: one, .. }, Literal::Text { text: other, .. }) => {
            if case_sensitive {
                return one.cmp(other);
            }
            one.to_ascii_lowercase().cmp(&other.to_ascii_lowercase())
        }
        (Literal::Int(one), Literal::Int(other)) => one.cmp(other),
        (Literal::Float(one), Literal::Float(other)) => one.total_cmp(other),
        (Literal::Bool(one), Literal::Bool(other)) => one.cmp(other),
        _ => std::cmp::Ordering::Equal,
    }
}
