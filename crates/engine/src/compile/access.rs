//! Attributes, items, and lists of constants.

use super::build::{INDEXED_MAX, index_of};
use super::compiler::{Compiler, Result};
use super::default::Element;
use super::filter::is_filter;
use super::value::{Items, List, Literal, Operand, is_of_column, null_of};
use crate::diagnostic::{Place, Reported, did_you_mean, did_you_mean_or};
use crate::program::{Arithmetic, Comparison, Constant, Formatting, Type};
use crate::settings::StoredKind;
use minijinja::machinery::ast::{self, Expr};
use rhythm_protocol::http::head::is_token;

impl<'a> Compiler<'_, 'a> {
    /// An attribute, or an item beside that of a loop's turn.
    pub(super) fn attribute_at(
        &mut self,
        base: &Operand,
        name: &str,
        place: Place<'a>,
    ) -> Result<Option<Operand>> {
        match (base, name) {
            (Operand::Loop(registers), "previtem" | "nextitem") => {
                self.neighbor(*registers, name, place).map(Some)
            }
            _ => self.attribute(base, name),
        }
    }

    /// An attribute, `None` where there is none of this name.
    pub(super) fn attribute(&mut self, base: &Operand, name: &str) -> Result<Option<Operand>> {
        let field = |field: u16| Operand::Field {
            field,
            kind: Type::Int,
        };
        Ok(match base {
            Operand::Record(names) | Operand::Module(names) | Operand::Errors { of: names, .. } => {
                names.get(name).cloned()
            }
            Operand::Row { list, position } => {
                let column = list.columns.iter().position(|(column, _)| column == name);
                column.map(|column| Operand::Column {
                    list: list.clone(),
                    column: index_of(column),
                    position: *position,
                })
            }
            Operand::List(list) if name == "status" => list.status.map(field),
            Operand::Session { user, .. } if name == "userid" => Some(field(*user)),
            Operand::Session { present, .. } if name == "present" => {
                let place = self.origin.place(0);
                Some(self.compare(
                    Comparison::NotEqual,
                    &field(*present),
                    &Operand::int(0),
                    place,
                )?)
            }
            Operand::Cookies => is_token(name.as_bytes()).then(|| Operand::Field {
                field: self.page.cookie(name),
                kind: Type::Text,
            }),
            Operand::Session { .. } => match self.page.stored_named(name) {
                Some((stored, kind)) => Some(self.stored(stored, kind)?),
                None if self.page.fields_lost => Some(Operand::Poison),
                None => None,
            },
            Operand::Map(pairs) => {
                let is_it =
                    |key: &Literal| matches!(key, Literal::Text { text, .. } if &**text == name);
                let found = pairs.iter().find(|(key, _)| is_it(key));
                found.map(|(_, value)| value.clone())
            }
            Operand::Group { grouper, list } => match name {
                "grouper" => Some((**grouper).clone()),
                "list" => Some(Operand::List(list.clone())),
                _ => None,
            },
            Operand::Namespace(index) => self.in_namespace(*index, name),
            // Where it is not there it has none either, and the lane fails.
            Operand::Perhaps { of, .. } => self.attribute(of, name)?,
            Operand::Loop(registers) => {
                let index = Operand::register(registers.index, Type::Int);
                let length = Operand::register(registers.length, Type::Int);
                let one = Operand::int(1);
                let place = self.origin.place(0);
                Some(match name {
                    "index0" => index,
                    "index" => self.integer_arithmetic(Arithmetic::Add, &index, &one)?,
                    "length" => length,
                    "revindex" => self.integer_arithmetic(Arithmetic::Subtract, &length, &index)?,
                    "revindex0" => {
                        let left =
                            self.integer_arithmetic(Arithmetic::Subtract, &length, &index)?;
                        self.integer_arithmetic(Arithmetic::Subtract, &left, &one)?
                    }
                    "first" => self.compare(Comparison::Equal, &index, &Operand::int(0), place)?,
                    "last" => {
                        let last = self.integer_arithmetic(Arithmetic::Subtract, &length, &one)?;
                        self.compare(Comparison::Equal, &index, &last, place)?
                    }
                    // MiniJinja counts recursive loops only.
                    "depth" => one,
                    "depth0" => Operand::int(0),
                    _ => return Ok(None),
                })
            }
            _ => None,
        })
    }

    /// Whether a value is null; `None` where that is not told of it.
    pub(super) fn is_null(&mut self, value: &Operand, place: Place<'a>) -> Result<Option<Operand>> {
        let null = match value {
            Operand::Column {
                list,
                column,
                position,
            } => {
                let name = list.columns.get(usize::from(*column)).map(|(name, _)| name);
                let null = name.and_then(|name| list.column_of(&null_of(name)));
                null.map(|null| Operand::Column {
                    list: list.clone(),
                    column: index_of(null),
                    position: *position,
                })
            }
            Operand::Field { field, .. } => {
                let null = self.page.nulls.get(field);
                null.map(|null| Operand::Field {
                    field: *null,
                    kind: Type::Int,
                })
            }
            _ => None,
        };
        let is_not = Operand::int(0);
        null.map(|null| self.compare(Comparison::NotEqual, &null, &is_not, place))
            .transpose()
    }

    /// A field of the session.
    pub(super) fn stored(&mut self, stored: u16, kind: StoredKind) -> Result<Operand> {
        let field = self.page.stored(stored, kind);
        let number = Operand::Field {
            field,
            kind: Type::Int,
        };
        Ok(match kind {
            StoredKind::Text(_) => Operand::Field {
                field,
                kind: Type::Text,
            },
            StoredKind::Int => number,
            StoredKind::Bool => {
                let place = self.origin.place(0);
                self.compare(Comparison::NotEqual, &number, &Operand::int(0), place)?
            }
        })
    }

    pub(super) fn no_attribute(
        &mut self,
        base: &Operand,
        name: &str,
        place: Place<'a>,
    ) -> Reported {
        let is_like = |known| did_you_mean(name, [known]).starts_with("did you mean");
        let hint = match base {
            Operand::Record(names) | Operand::Module(names) | Operand::Errors { of: names, .. } => {
                did_you_mean_or(name, names.keys().map(String::as_str), "it defines nothing")
            }
            Operand::Row { list, .. } => {
                let names = list.columns.iter().map(|(name, _)| name.as_str());
                did_you_mean(name, names.filter(|name| is_of_column(name)))
            }
            Operand::List(list) if list.status.is_some() && is_like("status") => {
                "did you mean `status`?".to_owned()
            }
            Operand::List(_) => {
                "go through the list with `for`, or take an item: rows[0]".to_owned()
            }
            Operand::Session { .. } => {
                let stored = self.page.fields_of_sessions.iter();
                let stored = stored.map(|field| field.name.as_str());
                did_you_mean(name, stored.chain(["userid", "present"]))
            }
            Operand::Loop(_) if name == "changed" => "loop.changed(row.name)".to_owned(),
            Operand::Map(pairs) => {
                let texts = pairs.iter().filter(|(key, _)| key.kind() == Type::Text);
                let keys: Vec<_> = texts.map(|(key, _)| key.print()).collect();
                did_you_mean_or(
                    name,
                    keys.iter().map(|key| &**key),
                    "its keys are integers: map[1]",
                )
            }
            Operand::Namespace(index) => {
                let names = self.namespaces[*index].keys().map(String::as_str);
                did_you_mean_or(name, names, "namespace(found=false)")
            }
            Operand::Group { .. } => did_you_mean(name, ["grouper", "list"]),
            Operand::Perhaps { of, .. } => return self.no_attribute(of, name, place),
            Operand::Loop(_) => did_you_mean(
                name,
                [
                    "index",
                    "index0",
                    "revindex",
                    "revindex0",
                    "first",
                    "last",
                    "length",
                    "previtem",
                    "nextitem",
                    "depth",
                    "depth0",
                ],
            ),
            _ if is_filter(name) => format!("`|{name}` is a filter"),
            operand if operand.scalar().is_some() => {
                "it is one value, without parts: print it as it is".to_owned()
            }
            operand => operand.parts().to_owned(),
        };
        self.error(place, format!("{} has no `{name}`", base.describe()), hint)
    }

    pub(super) fn get_item(
        &mut self,
        node: &ast::GetItem<'_>,
        place: Place<'a>,
    ) -> Result<Operand> {
        match self.item_of(node, place)? {
            Element::Item { list, position } => self.checked_item(&list, position),
            Element::Character(value) | Element::Value(value) => Ok(value),
        }
    }

    /// What `base[subscript]` is.
    pub(super) fn item_of(&mut self, node: &ast::GetItem<'_>, place: Place<'a>) -> Result<Element> {
        let base = self.expression(&node.expr)?;
        let subscript = self.expression(&node.subscript_expr)?;
        let is_int = (subscript.scalar()).is_some_and(|(kind, _)| kind == Type::Int);
        let name = match (&base, &subscript) {
            (_, Operand::Literal(Literal::Text { text, .. })) => text.to_string(),
            (Operand::Row { .. }, Operand::Literal(Literal::Int(index))) => index.to_string(),
            (Operand::Group { .. }, Operand::Literal(Literal::Int(0))) => "grouper".to_owned(),
            (Operand::Group { .. }, Operand::Literal(Literal::Int(1))) => "list".to_owned(),
            (Operand::Map(pairs), _) if subscript.scalar().is_some() => {
                let found = self.looked_up(pairs, &subscript, place)?;
                return Ok(Element::Value(found));
            }
            (Operand::List(list), _) if is_int => {
                let index = match &subscript {
                    Operand::Literal(Literal::Int(index)) if *index < 0 => {
                        let length = self.length_of(list)?;
                        self.integer_arithmetic(Arithmetic::Add, &length, &subscript)?
                    }
                    _ => subscript,
                };
                let position = self.position_of(list, &index)?;
                let list = list.clone();
                return Ok(Element::Item { list, position });
            }
            (text, _) if is_int && text.scalar().is_some_and(|(kind, _)| kind == Type::Text) => {
                let character = self.formatted(Formatting::Character, &[base, subscript], false);
                return Ok(Element::Character(character));
            }
            _ => {
                let message = format!(
                    "{} has no item by {}",
                    base.describe(),
                    subscript.describe()
                );
                let hint = "lists and texts have items by position, records by name";
                return Err(self.error(place, message, hint));
            }
        };
        let is_hidden = matches!(base, Operand::Row { .. }) && !is_of_column(&name);
        match self.attribute(&base, &name)?.filter(|_| !is_hidden) {
            Some(operand) => Ok(Element::Value(operand)),
            None => Err(self.no_attribute(&base, &name, place)),
        }
    }

    /// Adds a table of constants, or finds it.
    pub(super) fn table(&mut self, literals: &[Literal]) -> u16 {
        let table: Vec<Constant> = literals
            .iter()
            .map(|literal| self.page.constant(literal))
            .collect();
        let known = self.page.tables.iter().position(|known| *known == table);
        let index = known.unwrap_or_else(|| {
            self.page.tables.push(table);
            self.page.tables.len() - 1
        });
        index_of(index)
    }

    /// A list of constants: of values, of tuples or of maps.
    pub(super) fn constant_list(
        &mut self,
        items: &[Expr<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let mut columns: Vec<(String, Vec<Literal>)> = Vec::new();
        for (row, item) in items.iter().enumerate() {
            let cells = self.cells_of(item, place)?;
            if row == 0 {
                columns = cells
                    .iter()
                    .map(|(name, _)| (name.clone(), Vec::new()))
                    .collect();
            }
            let names = |(a, b): (&(String, Vec<Literal>), &(String, &Expr<'_>))| a.0 == b.0;
            if columns.len() != cells.len() || !columns.iter().zip(&cells).all(names) {
                let item = self.place_of(item);
                let hint = "all plain values, or all with the same keys or as many values";
                return Err(self.error(item, "the items of a list must be alike", hint));
            }
            for ((_, literals), (_, expression)) in columns.iter_mut().zip(cells) {
                let literal = self.cell(expression, literals.first())?;
                literals.push(literal);
            }
        }
        if columns.len() > INDEXED_MAX {
            let hint = format!("at most {INDEXED_MAX}");
            return Err(self.error(place, "a list has too many columns here", hint));
        }
        if columns.is_empty() {
            return Ok(List::empty());
        }
        let tables = columns
            .iter()
            .map(|(_, literals)| self.table(literals))
            .collect();
        let columns = (columns.into_iter())
            .map(|(name, literals)| (name, literals[0].kind()))
            .collect();
        let length = items.len();
        Ok(List::of(Items::Tables { tables, length }, columns))
    }

    /// What an item of a list of constants has in each column, in the order of their names.
    fn cells_of<'e>(
        &mut self,
        item: &'e Expr<'e>,
        place: Place<'a>,
    ) -> Result<Vec<(String, &'e Expr<'e>)>> {
        let numbered = |items: &'e [Expr<'e>]| {
            let items = items.iter().enumerate();
            items
                .map(|(index, item)| (index.to_string(), item))
                .collect()
        };
        let mut cells: Vec<(String, &Expr<'_>)> = match item {
            Expr::Tuple(tuple) => numbered(&tuple.items),
            Expr::List(list) => numbered(&list.items),
            Expr::Map(map) => {
                let mut cells = Vec::new();
                for (key, value) in map.keys.iter().zip(&map.values) {
                    let Operand::Literal(Literal::Text { text, .. }) = self.expression(key)? else {
                        let message = "the keys of a map must be constant texts";
                        let hint = "[{\"name\": \"a\"}, {\"name\": \"b\"}]";
                        return Err(self.error(place, message, hint));
                    };
                    cells.push((text.to_string(), value));
                }
                cells
            }
            item => vec![(String::new(), item)],
        };
        cells.sort_by(|a, b| a.0.len().cmp(&b.0.len()).then_with(|| a.0.cmp(&b.0)));
        Ok(cells)
    }

    /// A constant, of the type of the first of its column.
    fn cell(&mut self, expression: &Expr<'_>, first: Option<&Literal>) -> Result<Literal> {
        let place = self.place_of(expression);
        let literal = match self.expression(expression)? {
            Operand::Literal(Literal::Text { safe: true, .. }) => None,
            Operand::Literal(literal) => Some(literal),
            _ => None,
        };
        let Some(literal) = literal else {
            let message = "the items of a list must be constant";
            return Err(self.error(place, message, "numbers, texts, true and false"));
        };
        if first.is_some_and(|first| first.kind() != literal.kind()) {
            let hint = "put all of them in quotes, or none";
            let message = "the items of a list must be of one type";
            return Err(self.error(place, message, hint));
        }
        Ok(literal)
    }
}
