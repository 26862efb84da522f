//! Filters: `{{ value|filter }}`.

use super::build::{OpenBlock, index_of};
use super::compiler::{Compiler, Result};
use super::format::FORMATTED_MAX;
use super::value::{Chosen, List, Literal, Operand};
use crate::diagnostic::{Place, did_you_mean};
use crate::program::{
    Arithmetic, Binary, Comparison, Concat, Conversion, Escape, Op, Register, Replace,
    TextFunction, Type, Unary,
};
use minijinja::machinery::ast::{self, Expr, Spanned};
use std::rc::Rc;

/// The filters there are, by all their names.
const FILTERS: [&str; 45] = [
    "abs",
    "bool",
    "capitalize",
    "count",
    "d",
    "dateformat",
    "default",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "format",
    "indent",
    "int",
    "join",
    "last",
    "length",
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
    "sort",
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

/// Whether an expression is the first or last item of something.
fn is_end(expression: &Expr<'_>) -> bool {
    matches!(expression, Expr::Filter(node) if matches!(node.name, "first" | "last"))
}

/// Whether there is a filter of this name.
pub(super) fn is_filter(name: &str) -> bool {
    FILTERS.contains(&name)
}

/// What to do instead of a filter, or a method, that is not there.
pub(super) fn instead_of(name: &str) -> String {
    match name {
        "items" | "groupby" | "slice" | "dictsort" | "chain" | "zip" => {
            "pages show what backends answer; let the backend prepare it".to_owned()
        }
        "batch" => {
            "{% if loop.index is divisibleby 3 %} tells where a row of three ends".to_owned()
        }
        "split" | "lines" => "lists come from backends; `|nl2br` shows lines".to_owned(),
        "datetimeformat" | "timeformat" | "date" | "strftime" => {
            "|dateformat(\"%Y-%m-%d %H:%M\")".to_owned()
        }
        "len" | "size" => "`|length` counts".to_owned(),
        "strip" => "`|trim` takes the blanks away".to_owned(),
        "uppercase" | "toUpperCase" => "did you mean `upper`?".to_owned(),
        "lowercase" | "toLowerCase" => "did you mean `lower`?".to_owned(),
        "str" => "did you mean `string`?".to_owned(),
        "startswith" => "`is startingwith(...)` tests it".to_owned(),
        "endswith" => "`is endingwith(...)` tests it".to_owned(),
        _ => did_you_mean(name, FILTERS),
    }
}

impl<'a> Compiler<'_, 'a> {
    pub(super) fn filter(&mut self, node: &Spanned<ast::Filter<'_>>) -> Result<Operand> {
        let place = self.origin.at(node.span());
        let Some(expression) = &node.expr else {
            return Err(self.error(place, "this filter has no value", "{{ value|filter }}"));
        };
        let name = node.name;
        let parameters: &[&str] = match name {
            // Unnamed: MiniJinja takes these by position only.
            "default" | "d" | "replace" | "pluralize" => &["", ""],
            "join" => &["d", "attribute"],
            "sum" | "map" => &["attribute"],
            "int" | "float" => &["default"],
            "sort" => &["reverse", "case_sensitive", "attribute"],
            "unique" => &["case_sensitive", "attribute"],
            // The column, a test, and what that is given.
            "selectattr" | "rejectattr" => &["", "", ""],
            "select" | "reject" => &["", ""],
            "round" => &["precision", "method"],
            "filesizeformat" => &["binary"],
            "truncate" => &["length", "killwords", "end", "leeway"],
            "indent" => &["width", "first", "blank"],
            "dateformat" => &["format"],
            "format" => &[""; FORMATTED_MAX],
            _ if FILTERS.contains(&name) => &[],
            _ => {
                let message = format!("there is no filter `{name}`");
                return Err(self.error(place, message, instead_of(name)));
            }
        };
        let what = format!("the filter `{name}`");
        let arguments = self.arguments(&what, parameters, &node.args, place)?;
        if matches!(name, "default" | "d") {
            return self.default_filter(expression, &arguments, place);
        }
        let value = self.expression(expression)?;
        match name {
            "length" | "count" => self.length_filter(value, place),
            "first" | "last" if matches!(value, Operand::List(_)) => {
                let Operand::List(list) = &value else {
                    return Ok(value);
                };
                let position = if name == "first" {
                    Operand::int(0)
                } else {
                    let length = self.length_of(list)?;
                    self.integer_arithmetic(Arithmetic::Subtract, &length, &Operand::int(1))?
                };
                self.item_at(list, &position)
            }
            "reverse" if matches!(value, Operand::List(_) | Operand::Range { .. }) => {
                let list = self.list_of(name, &value, place)?;
                Ok(list.choose(Chosen::Reverse))
            }
            "list" if matches!(value, Operand::Range { .. }) => Ok(value),
            "list" => Ok(Operand::List(self.list_of(name, &value, place)?)),
            "sort" => self.sort_filter(&value, &arguments, place),
            "unique" => self.unique_filter(&value, &arguments, place),
            "select" | "reject" => self.where_filter(name, &value, None, &arguments, place),
            "selectattr" | "rejectattr" => {
                let Some((Some(attribute), test)) = arguments.split_first() else {
                    let hint = format!("rows|{name}(\"column\")");
                    return Err(self.error(place, "the column is missing", hint));
                };
                self.where_filter(name, &value, Some(attribute), test, place)
            }
            "join" => self.join_filter(value, &arguments, place),
            "map" => Ok(Operand::List(self.map_filter(
                &value,
                arguments[0],
                place,
            )?)),
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
            "tojson" => self.capture(|this| this.json(&value, place)),
            "escape" | "e" if self.escape == Escape::Json && !value.is_safe() => {
                self.capture(|this| this.json(&value, place))
            }
            "int" | "float" => match arguments[0] {
                Some(other) => self.number_or(name, value, other, place),
                None => self.number_filter(name, value, place),
            },
            "abs" => self.number_filter(name, value, place),
            "bool" => self.truth(value, place),
            "pluralize" => self.plural_filter(value, &arguments, place),
            "round" => self.round_filter(value, &arguments, place),
            "format" => self.format_filter(&value, &arguments, place),
            "filesizeformat" => self.file_size_filter(value, arguments[0], place),
            "truncate" => self.truncate_filter(value, &arguments, place),
            "indent" => self.indent_filter(value, &arguments, place),
            "nl2br" => self.line_breaks_filter(value, place),
            "dateformat" => self.date_filter(&value, arguments[0], place),
            "striptags" | "reverse" => self.plain_formatting(name, value, place),
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

    pub(super) fn default_filter(
        &mut self,
        expression: &Expr<'_>,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let value = self.optional(expression)?;
        let lax = match arguments[1] {
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
        if lax && matches!(value, Operand::List(_)) {
            let hint = "{% for x in list %}...{% else %}...{% endfor %} says what there is without";
            return Err(self.error(place, "a list that may be empty has no default", hint));
        }
        let is_text = value.scalar().is_some_and(|(kind, _)| kind == Type::Text);
        let (value, lax) = match self.is_there(expression, &value)? {
            Some(is_there) => (self.value_or(is_there, value, arguments[0], place)?, lax),
            // Of a text without characters there is no first one.
            None => (value, lax || is_text && is_end(expression)),
        };
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
        self.value_or(condition, value, arguments[0], place)
    }

    /// Whether an item of a list of plain values is there, where that is not sure. Of what has no
    /// such item, as of a record that is not there, there is no default either.
    fn is_there(&mut self, expression: &Expr<'_>, value: &Operand) -> Result<Option<Register>> {
        let Operand::Column { list, position, .. } = value else {
            return Ok(None);
        };
        if !list.is_plain() || !is_end(expression) && !matches!(expression, Expr::GetItem(_)) {
            return Ok(None);
        }
        // One before the first, as the last of none, is as far beyond the end.
        let zero = self.register(&Operand::int(0));
        let is_after = self
            .stage
            .compare(Comparison::GreaterOrEqual, *position, zero);
        let length = self.length_of_all(list);
        let length = self.register(&length);
        let is_before = self.stage.compare(Comparison::Less, *position, length);
        self.stage.open();
        let within = self.stage.close(self.fragments);
        let both = self.select(
            is_after,
            (within, Operand::register(is_before, Type::Bool)),
            (OpenBlock::default(), Operand::bool(false)),
        );
        Ok(both.ok().map(|both| self.register(&both)))
    }

    /// A value, where the condition holds, or its default.
    fn value_or(
        &mut self,
        condition: Register,
        value: Operand,
        other: Option<&Expr<'_>>,
        place: Place<'a>,
    ) -> Result<Operand> {
        self.stage.open();
        let other = match other {
            Some(other) => self.expression(other),
            None => Ok(Operand::text("")),
        };
        let block = self.stage.close(self.fragments);
        self.select(condition, (OpenBlock::default(), value), (block, other?))
            .map_err(|reason| {
                let hint = "a default is of the type that the value has: 0 for an integer";
                self.error(place, format!("this has no single type: {reason}"), hint)
            })
    }

    pub(super) fn length_filter(&mut self, value: Operand, place: Place<'a>) -> Result<Operand> {
        Ok(match &value {
            Operand::List(list) => self.length_of(list)?,
            Operand::Literal(Literal::Text { text, .. }) => {
                Operand::int(text.chars().count() as i64)
            }
            Operand::Range { count, .. } => match &**count {
                Operand::Literal(Literal::Int(count)) => Operand::int((*count).max(0)),
                _ => {
                    return Err(self.error(
                        place,
                        "the length of such a range is not supported",
                        "it is the difference of its bounds, divided by the step",
                    ));
                }
            },
            value => match value.scalar() {
                Some((Type::Text, _)) => {
                    let from = self.register(value);
                    let register = self
                        .stage
                        .other(Type::Int, |to| Op::TextLength(Unary { to, from }));
                    Operand::register(register, Type::Int)
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
        Ok(Operand::Register {
            register,
            kind: Type::Text,
            safe,
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
        let Some(column) = list.columns.iter().position(|(name, _)| *name == column) else {
            let columns = || list.columns.iter().map(|(name, _)| name.as_str());
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
        let safe = separator.is_safe();
        self.joined(list, index_of(column), &separator, safe)
    }

    pub(super) fn joined(
        &mut self,
        list: &List,
        column: u16,
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
            let item = Operand::Column {
                list: Rc::new(list.all()),
                column,
                position,
            };
            let item = if safe { this.escaped(item) } else { item };
            let item = this.text_register(&item);
            let first = this.stage.compare(Comparison::Equal, index, zero);
            let mut then = OpenBlock::default();
            then.ops.push(Op::Copy(Unary {
                to: joined,
                from: item,
            }));
            this.stage.open();
            let parts = vec![joined, separator, item];
            let from = this
                .stage
                .other(Type::Text, |to| Op::Concat(Concat { to, parts }));
            this.stage.push(Op::Copy(Unary { to: joined, from }));
            let otherwise = this.stage.close(this.fragments);
            this.stage.push_if(first, then, otherwise, this.fragments);
        })?;
        Ok(Operand::Register {
            register: joined,
            kind: Type::Text,
            safe,
        })
    }
}
