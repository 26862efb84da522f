//! Filters: `{{ value|filter }}`.

use super::build::OpenBlock;
use super::compiler::{Compiler, Result};
use super::default::Element;
use super::format::FORMATTED_MAX;
use super::value::{Chosen, List, Literal, Operand, Printed, is_of_column};
use crate::diagnostic::{Place, Reported, did_you_mean};
use crate::program::{
    Binary, Comparison, Concat, Conversion, Escape, Op, Replace, TextFunction, Type, Unary,
};
use minijinja::machinery::ast::{self, Expr, Spanned};
use std::rc::Rc;

/// The filters there are, by all their names.
const FILTERS: [&str; 52] = [
    "abs",
    "batch",
    "bool",
    "capitalize",
    "count",
    "d",
    "dateformat",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "md5",
    "min",
    "nl2br",
    "pluralize",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
];

/// Most arguments that a filter is given by `map`.
pub(super) const MAPPED_MAX: usize = 5;

/// The filter that `map` applies with what it is given, and the column that it takes instead.
const MAP_PARAMETERS: [&str; MAPPED_MAX + 2] = ["", "", "", "", "", "", "attribute"];

/// Whether there is a filter of this name.
pub(super) fn is_filter(name: &str) -> bool {
    FILTERS.contains(&name)
}

/// What to do instead of a filter, or a method, that is not there.
pub(super) fn instead_of(name: &str) -> String {
    match name {
        "chain" | "zip" => "pages show what backends answer; let the backend prepare it".to_owned(),
        "datetimeformat" | "timeformat" | "date" | "strftime" => {
            "|dateformat(\"%Y-%m-%d %H:%M\")".to_owned()
        }
        "wordcount" => "`|split|length` counts what stands between blanks".to_owned(),
        "wordwrap" => "browsers wrap lines, and `|truncate(80)` cuts".to_owned(),
        "len" | "size" => "`|length` counts".to_owned(),
        "strip" => "`|trim` takes the blanks away".to_owned(),
        "uppercase" | "toUpperCase" => "did you mean `upper`?".to_owned(),
        "lowercase" | "toLowerCase" => "did you mean `lower`?".to_owned(),
        "str" => "did you mean `string`?".to_owned(),
        "json" | "to_json" | "json_encode" | "dump" => "did you mean `tojson`?".to_owned(),
        "startswith" => "`is startingwith(...)` tests it".to_owned(),
        "endswith" => "`is endingwith(...)` tests it".to_owned(),
        _ => did_you_mean(name, FILTERS),
    }
}

impl<'a> Compiler<'_, 'a> {
    pub(super) fn filter(&mut self, node: &Spanned<ast::Filter<'_>>) -> Result<Operand> {
        let place = self.origin.at(node.span());
        let arguments = self.filter_arguments(node.name, &node.args, place)?;
        let value = match &node.expr {
            Some(expression) if matches!(node.name, "default" | "d") => {
                let value = self.element(expression)?;
                return self.default_of(value, &arguments, place);
            }
            Some(expression) => self.expression(expression)?,
            // That of the block which it stands for.
            None => match self.of_block.clone() {
                Some(value) => value,
                None => {
                    let hint = "{{ value|filter }}";
                    return Err(self.error(place, "this filter has no value", hint));
                }
            },
        };
        self.apply(node.name, value, &arguments, place)
    }

    /// The arguments of a filter that there is, by its parameters.
    pub(super) fn filter_arguments<'e, 's>(
        &mut self,
        name: &str,
        arguments: &'e [ast::CallArg<'s>],
        place: Place<'a>,
    ) -> Result<Vec<Option<&'e Expr<'s>>>> {
        let parameters: &[&str] = match name {
            // Unnamed: MiniJinja takes these by position only.
            "default" | "d" | "replace" | "pluralize" | "split" => &["", ""],
            "join" => &["d", "attribute"],
            "sum" => &["attribute"],
            "map" => &MAP_PARAMETERS,
            "int" | "float" => &["default"],
            "sort" => &["reverse", "case_sensitive", "attribute"],
            "unique" => &["case_sensitive", "attribute"],
            // The column, a test, and what that is given.
            "selectattr" | "rejectattr" => &["", "", ""],
            "select" | "reject" => &["", ""],
            "batch" | "slice" => &[""],
            "groupby" => &["attribute", "case_sensitive"],
            "dictsort" => &["by", "case_sensitive", "reverse"],
            "round" => &["precision", "method"],
            "filesizeformat" => &["binary"],
            "truncate" => &["length", "killwords", "end", "leeway"],
            "indent" => &["width", "first", "blank"],
            "dateformat" => &["format"],
            "format" => &[""; FORMATTED_MAX],
            _ if is_filter(name) => &[],
            _ => {
                let message = format!("there is no filter `{name}`");
                return Err(self.error(place, message, instead_of(name)));
            }
        };
        self.arguments(
            &format!("the filter `{name}`"),
            parameters,
            arguments,
            place,
        )
    }

    /// What a filter makes of a value.
    pub(super) fn apply(
        &mut self,
        name: &str,
        value: Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        match name {
            "length" | "count" => self.length_filter(value, place),
            "default" | "d" => self.default_of(Element::Value(value), arguments, place),
            "first" | "last" => match value {
                Operand::List(list) => {
                    let position = self.end_of(name, &list)?;
                    self.checked_item(&list, position)
                }
                value => self.text_filter(name, value, place),
            },
            "reverse" => match &value {
                Operand::List(list) => Ok(list.choose(Chosen::Reverse)),
                _ => self.plain_formatting(name, value, place),
            },
            "items" | "dictsort" => self.pairs_filter(name, &value, arguments, place),
            "list" | "lines" | "split" => self.parts_filter(name, value, arguments, place),
            "batch" | "slice" => self.nested_filter(name, &value, arguments[0], place),
            "sort" => self.sort_filter(&value, arguments, place),
            "groupby" => self.group_filter(&value, arguments, place),
            "unique" => self.unique_filter(&value, arguments, place),
            "select" | "reject" => self.where_filter(name, &value, None, arguments, place),
            "selectattr" | "rejectattr" => {
                let Some((Some(attribute), test)) = arguments.split_first() else {
                    let hint = format!("rows|{name}(\"column\")");
                    return Err(self.error(place, "the column is missing", hint));
                };
                self.where_filter(name, &value, Some(attribute), test, place)
            }
            "join" => self.join_filter(value, arguments, place),
            "map" => match arguments {
                [Some(filter), given @ .., None] => self.mapping(&value, filter, given, place),
                [Some(_), ..] => {
                    let message = "`map` takes a column or a filter, not both";
                    let hint = "rows|map(attribute=\"column\")|map(\"upper\")";
                    Err(self.error(place, message, hint))
                }
                [.., attribute] => Ok(Operand::List(self.map_filter(&value, *attribute, place)?)),
                [] => Err(Reported),
            },
            "sum" => {
                let list = match arguments[0] {
                    Some(_) => self.map_filter(&value, arguments[0], place)?,
                    None => self.plain_list(name, &value, place)?,
                };
                self.sum(&list, place)
            }
            "min" | "max" => {
                let list = self.plain_list(name, &value, place)?;
                self.extreme(name, &list, place)
            }
            "tojson" => self.json_text(&value, place),
            "escape" | "e" if self.escape == Escape::Json && !value.is_safe() => {
                self.capture(|this| this.json(&value, place))
            }
            "int" | "float" => match arguments[0] {
                Some(other) => self.number_or(name, value, other, place),
                None => self.number_filter(name, value, place),
            },
            "abs" => self.number_filter(name, value, place),
            "bool" => self.truth(value, place),
            "pluralize" => self.plural_filter(value, arguments, place),
            "round" => self.round_filter(value, arguments, place),
            "format" => self.format_filter(&value, arguments, place),
            "filesizeformat" => self.file_size_filter(value, arguments[0], place),
            "truncate" => self.truncate_filter(value, arguments, place),
            "indent" => self.indent_filter(value, arguments, place),
            "nl2br" => self.line_breaks_filter(value, place),
            "dateformat" => self.date_filter(&value, arguments[0], place),
            "striptags" => self.plain_formatting(name, value, place),
            "replace" => {
                let (Some(from), Some(to)) = (arguments[0], arguments[1]) else {
                    return Err(self.error(
                        place,
                        "replace takes what to replace and by what",
                        "|replace(\"a\", \"b\")",
                    ));
                };
                let (from, to) = (self.expression(from)?, self.expression(to)?);
                self.replace_filter(value, from, to, place)
            }
            _ => self.text_filter(name, value, place),
        }
    }

    pub(super) fn length_filter(&mut self, value: Operand, place: Place<'a>) -> Result<Operand> {
        Ok(match &value {
            Operand::List(list) => self.length_of(list)?,
            Operand::Map(pairs) => Operand::int(pairs.len() as i64),
            Operand::Literal(Literal::Text { text, .. }) => {
                Operand::int(text.chars().count() as i64)
            }
            value => match value.scalar() {
                Some((Type::Text, _)) => {
                    let register = self.stage.characters(value, self.page);
                    Operand::register(register.ok_or(Reported)?, Type::Int)
                }
                _ => {
                    return Err(self.error(
                        place,
                        format!("{} has no length", value.describe()),
                        "lists and texts have one",
                    ));
                }
            },
        })
    }

    pub(super) fn number_filter(
        &mut self,
        name: &str,
        value: Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        if value == Operand::Undefined {
            return Ok(if name == "float" {
                Operand::Literal(Literal::Float(0.0))
            } else {
                Operand::int(0)
            });
        }
        let Some((kind, _)) = value.scalar() else {
            let message = format!("{} is no number", value.describe());
            return Err(self.error(place, message, value.parts()));
        };
        let from = self.register(&value);
        let (register, kind) = match (name, kind) {
            ("abs", Type::Int | Type::Float) => (
                self.stage
                    .other(kind, |to| Op::Absolute(Unary { to, from })),
                kind,
            ),
            ("abs", _) => {
                return Err(self.error(
                    place,
                    format!("{} is no number", value.describe()),
                    "apply `|int` or `|float` first",
                ));
            }
            ("int", Type::Int) | ("float", Type::Float) => return Ok(value),
            ("int", Type::Float) => (self.stage.convert(Conversion::FloatToInt, from), Type::Int),
            ("int", Type::Text) => (self.stage.convert(Conversion::TextToInt, from), Type::Int),
            ("int", Type::Bool) => (self.stage.convert(Conversion::BoolToInt, from), Type::Int),
            (_, Type::Text) => (
                self.stage.convert(Conversion::TextToFloat, from),
                Type::Float,
            ),
            (_, Type::Bool) => {
                let from = self.stage.convert(Conversion::BoolToInt, from);
                (
                    self.stage.convert(Conversion::IntToFloat, from),
                    Type::Float,
                )
            }
            _ => return Ok(self.float(&value)),
        };
        Ok(Operand::register(register, kind))
    }

    /// `value|int(other)` and `value|float(other)`: where the value is no such number, the other.
    fn number_or(
        &mut self,
        name: &str,
        value: Operand,
        other: &Expr<'_>,
        place: Place<'a>,
    ) -> Result<Operand> {
        let wanted = if name == "int" {
            Type::Int
        } else {
            Type::Float
        };
        let at = self.place_of(other);
        let other = self.expression(other)?;
        if other.scalar().is_none_or(|(kind, _)| kind != wanted) {
            let message = format!("the default of `{name}` is {}", other.describe());
            let hint = match wanted {
                Type::Int => "it is an integer, such as |int(0)",
                _ => "it is a float, such as |float(0.0)",
            };
            return Err(self.error(at, message, hint));
        }
        let conversion = match (wanted, value.scalar()) {
            _ if value == Operand::Undefined => return Ok(other),
            (Type::Int, Some((Type::Text, _))) => Conversion::TextToInt,
            (Type::Int, Some((Type::Float, _))) => Conversion::FloatToInt,
            (_, Some((Type::Text, _))) => Conversion::TextToFloat,
            // All that there is of these is such a number.
            _ => return self.number_filter(name, value, place),
        };
        let (left, right) = (self.register(&value), self.register(&other));
        let register = self.stage.other(wanted, |to| {
            Op::ConvertOr(conversion, Binary { to, left, right })
        });
        Ok(Operand::register(register, wanted))
    }

    pub(super) fn text_filter(
        &mut self,
        name: &str,
        value: Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        if name == "urlencode" && value == Operand::None {
            return Ok(Operand::text(""));
        }
        let value = self.printable(value, place)?;
        let safe = value.is_safe();
        let is_text = value.scalar().is_some_and(|(kind, _)| kind == Type::Text);
        let (function, safe) = match name {
            "upper" => (TextFunction::Upper, safe),
            "lower" => (TextFunction::Lower, safe),
            "capitalize" => (TextFunction::Capitalize, safe),
            "trim" => (TextFunction::Trim, safe),
            "title" => (TextFunction::Title, false),
            "first" | "last" if !is_text => {
                return Err(self.error(
                    place,
                    format!("{} has no {name} item", value.describe()),
                    "lists and texts have one",
                ));
            }
            "first" => (TextFunction::First, false),
            "last" => (TextFunction::Last, safe),
            "urlencode" => (TextFunction::UrlEncode, false),
            "md5" => (TextFunction::Md5, false),
            "string" | "safe" => {
                let safe = safe || name == "safe";
                if let Operand::Literal(literal) = &value {
                    let text = literal.print();
                    return Ok(Operand::Literal(Literal::Text { text, safe }));
                }
                let register = self.text_register(&value);
                return Ok(Operand::Register {
                    register,
                    kind: Type::Text,
                    safe,
                });
            }
            _ => return Ok(self.escaped(value)),
        };
        let from = self.text_register(&value);
        let register = self.stage.text_function(function, from);
        let text = Operand::Register {
            register,
            kind: Type::Text,
            safe,
        };
        Ok(match function {
            // It has no `:`.
            TextFunction::UrlEncode => self.note(text, Printed::Path),
            _ => text,
        })
    }

    /// A value's text, safe to print.
    pub(super) fn escaped(&mut self, value: Operand) -> Operand {
        if value.is_safe() {
            return value;
        }
        if let Operand::Literal(literal) = &value {
            let text = super::output::escape_literal(&literal.print(), Escape::Html).into();
            return Operand::Literal(Literal::Text { text, safe: true });
        }
        let is_text = value.scalar().is_some_and(|(kind, _)| kind == Type::Text);
        let mut register = self.text_register(&value);
        if is_text {
            register = self
                .stage
                .text_function(TextFunction::Escape(Escape::Html), register);
        }
        Operand::Register {
            register,
            kind: Type::Text,
            safe: true,
        }
    }

    pub(super) fn replace_filter(
        &mut self,
        value: Operand,
        old: Operand,
        new: Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        let mut value = self.printable(value, place)?;
        let old = self.printable(old, place)?;
        let mut new = self.printable(new, place)?;
        let safe = value.is_safe() || old.is_safe() || new.is_safe();
        if safe {
            // What is not safe itself becomes so first.
            value = self.escaped(value);
            new = self.escaped(new);
        }
        let (from, old, new) = (
            self.text_register(&value),
            self.text_register(&old),
            self.text_register(&new),
        );
        let register = self
            .stage
            .other(Type::Text, |to| Op::Replace(Replace { to, from, old, new }));
        Ok(Operand::Register {
            register,
            kind: Type::Text,
            safe,
        })
    }

    /// `list|join(", ")`, of plain values or of one column.
    pub(super) fn join_filter(
        &mut self,
        value: Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let Operand::List(list) = &value else {
            return Err(self.error(
                place,
                format!("`join` joins a list, not {}", value.describe()),
                "a list parameter or the rows of a call; `~` joins texts",
            ));
        };
        let column = match arguments[1] {
            None => String::new(),
            Some(attribute) => match self.expression(attribute)? {
                Operand::Literal(Literal::Text { text, .. }) => text.to_string(),
                _ => {
                    return Err(self.error(
                        place,
                        "the attribute of `join` must be a constant text",
                        "|join(\", \", attribute=\"column\")",
                    ));
                }
            },
        };
        let named = list.column_of(&column);
        let Some(column) = named.filter(|_| is_of_column(&column)) else {
            let columns = list.columns.iter().map(|(name, _)| name.as_str());
            let columns = || columns.clone().filter(|name| is_of_column(name));
            let hint = match columns().next() {
                Some("") => "the items are plain values: |join(\", \")".to_owned(),
                Some(first) if column.is_empty() => {
                    format!("|join(\", \", attribute=\"{first}\")")
                }
                _ => did_you_mean(&column, columns()),
            };
            return Err(self.error(place, "`join` needs a column of the records", hint));
        };
        let separator = match arguments[0] {
            None => Operand::text(""),
            Some(separator) => {
                let separator = self.expression(separator)?;
                self.printable(separator, place)?
            }
        };
        // One safe item has all others, and what stands between them, made so.
        let safe = (separator.is_safe() || list.is_safe()) && self.escape != Escape::None;
        let separator = if safe {
            self.escaped(separator)
        } else {
            separator
        };
        self.joined(list, column, &separator, safe)
    }

    pub(super) fn joined(
        &mut self,
        list: &Rc<List>,
        column: usize,
        separator: &Operand,
        safe: bool,
    ) -> Result<Operand> {
        let separator = self.text_register(separator);
        let empty = self.register(&Operand::text(""));
        let zero = self.register(&Operand::int(0));
        let joined = self.stage.new_register(Type::Text);
        self.stage.push(Op::Copy(Unary {
            to: joined,
            from: empty,
        }));
        self.through(list, |this, position, index| {
            let item = this.value_of(list, column, position)?;
            let item = if safe { this.escaped(item) } else { item };
            let item = this.text_register(&item);
            let first = this.stage.compare(Comparison::Equal, index, zero);
            let mut then = OpenBlock::default();
            let append = |parts| Op::Append(Concat { to: joined, parts });
            then.ops.push(append(vec![item]));
            this.stage.open();
            this.stage.push(append(vec![separator, item]));
            let otherwise = this.stage.close(this.fragments);
            this.stage.push_if(first, then, otherwise, this.fragments);
            Ok(())
        })??;
        Ok(Operand::Register {
            register: joined,
            kind: Type::Text,
            safe,
        })
    }
}
