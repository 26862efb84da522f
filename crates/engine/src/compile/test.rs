//! Tests: `value is test`.

use super::compiler::{Compiler, Result};
use super::value::{Given, Items, Literal, Operand, Tested};
use crate::diagnostic::{Place, did_you_mean};
use crate::program::{Arithmetic, Comparison, Formatting, Op, TextTest, Type, Unary};
use minijinja::machinery::ast::{self, Expr, Spanned};

/// The tests there are.
const TESTS: [&str; 33] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
    "iterable",
];

impl<'a> Compiler<'_, 'a> {
    /// A test, of which a branch may depend.
    pub(super) fn test(&mut self, node: &Spanned<ast::Test<'_>>, decides: bool) -> Result<Operand> {
        let place = self.origin.at(node.span());
        let name = node.name;
        if !TESTS.contains(&name) {
            let hint = did_you_mean(name, TESTS);
            return Err(self.error(place, format!("there is no test `{name}`"), hint));
        }
        let what = format!("the test `{name}`");
        let parameters: &[&str] = if takes_argument(name) { &[""] } else { &[] };
        let arguments = self.arguments(&what, parameters, &node.args, place)?;
        if matches!(name, "defined" | "undefined") {
            let value = self.optional(&node.expr)?;
            if let Operand::Perhaps { there, .. } = value {
                let there = Operand::register(there, Type::Bool);
                return Ok(match name {
                    "defined" => there,
                    _ => self.negation(there),
                });
            }
            return Ok(Operand::bool(
                (value == Operand::Undefined) == (name == "undefined"),
            ));
        }
        let value = self.expression(&node.expr)?;
        if name == "none"
            && let Some(is_null) = self.is_null(&value, place)?
        {
            return Ok(is_null);
        }
        let given = match arguments.first() {
            Some(argument) => self.given(name, *argument, place)?,
            None => Given::Nothing,
        };
        self.test_of(name, value, &given, decides, place)
    }

    /// What a test is given, which takes an argument.
    fn given(
        &mut self,
        name: &str,
        argument: Option<&Expr<'_>>,
        place: Place<'a>,
    ) -> Result<Given> {
        match argument {
            None => {
                let message = format!("the test `{name}` takes an argument");
                Err(self.error(place, message, format!("is {name}(...)")))
            }
            Some(container) if name == "in" => self.container(container),
            Some(other) => Ok(Given::One(Box::new(self.expression(other)?))),
        }
    }

    /// A test by its name, for a filter that takes items of which it holds.
    pub(super) fn tested(
        &mut self,
        test: &Expr<'_>,
        argument: Option<&Expr<'_>>,
    ) -> Result<Tested> {
        let place = self.place_of(test);
        let Operand::Literal(Literal::Text { text, .. }) = self.expression(test)? else {
            let hint = "such as \"odd\", or \"in\", [1, 2]";
            return Err(self.error(place, "a test is named by a constant text", hint));
        };
        let name = match &*text {
            "==" => "eq",
            "!=" => "ne",
            "<" => "lt",
            "<=" => "le",
            ">" => "gt",
            ">=" => "ge",
            name => name,
        };
        let name = name.to_owned();
        if !TESTS.contains(&&*name) {
            let hint = did_you_mean(&name, TESTS);
            return Err(self.error(place, format!("there is no test `{name}`"), hint));
        }
        let given = match takes_argument(&name) {
            true => self.given(&name, argument, place)?,
            false if argument.is_some() => {
                let message = format!("the test `{name}` takes no argument");
                return Err(self.error(place, message, "remove it"));
            }
            false => Given::Nothing,
        };
        Ok(Tested { name, given })
    }

    /// A test of a value.
    pub(super) fn test_of(
        &mut self,
        name: &str,
        value: Operand,
        given: &Given,
        decides: bool,
        place: Place<'a>,
    ) -> Result<Operand> {
        let kind = value.scalar().map(|(kind, _)| kind);
        let other = match given {
            Given::Items(items) => return self.contained_in_items(&value, items, place),
            Given::One(container) if name == "in" => {
                return self.contained(&value, container, place);
            }
            Given::One(other) => Some((**other).clone()),
            Given::Nothing => None,
        };
        let comparison = match name {
            "eq" | "equalto" => Some(Comparison::Equal),
            "ne" => Some(Comparison::NotEqual),
            "lt" | "lessthan" => Some(Comparison::Less),
            "le" => Some(Comparison::LessOrEqual),
            "gt" | "greaterthan" => Some(Comparison::Greater),
            "ge" => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        match (comparison, &other) {
            (Some(comparison), Some(other)) => self.compare(comparison, &value, other, place),
            (_, Some(other)) if name == "divisibleby" => {
                self.divisible(value, other.clone(), true, place)
            }
            (_, Some(other)) => {
                let value = self.printable(value, place)?;
                let other = self.printable(other.clone(), place)?;
                let (left, right) = (self.text_register(&value), self.text_register(&other));
                let test = if name == "startingwith" {
                    TextTest::StartsWith
                } else {
                    TextTest::EndsWith
                };
                Ok(self.text_test(test, left, right))
            }
            _ => Ok(match name {
                "even" | "odd" => {
                    return self.divisible(value, Operand::int(2), name == "even", place);
                }
                "lower" | "upper" if kind == Some(Type::Text) => {
                    let how = match name {
                        "lower" => Formatting::IsLower,
                        _ => Formatting::IsUpper,
                    };
                    let holds = self.formatted(how, &[value], false);
                    return self.truth(holds, place);
                }
                "true" if kind == Some(Type::Bool) => value,
                "false" if kind == Some(Type::Bool) => {
                    let from = self.register(&value);
                    Operand::register(
                        self.stage
                            .other(Type::Bool, |to| Op::Not(Unary { to, from })),
                        Type::Bool,
                    )
                }
                _ => {
                    let holds = type_holds(name, &value);
                    if decides {
                        self.warn_of_decided(name, &value, holds, place);
                    }
                    Operand::bool(holds)
                }
            }),
        }
    }

    /// Warns of a branch that the type of a value decides for all requests. What macros and
    /// templates are given may be of one type here and of another there.
    fn warn_of_decided(&mut self, name: &str, value: &Operand, holds: bool, place: Place<'a>) {
        let is_shared = !self.expanding.is_empty() || place.file.starts_with("templates/");
        if is_shared || value.scalar().is_none() {
            return;
        }
        let is_of_text = value.scalar().is_some_and(|(kind, _)| kind == Type::Text);
        let hint = match name {
            "number" | "integer" | "int" if is_of_text => {
                "`|int(0)` reads a text as a number, and gives 0 where it is none"
            }
            "float" if is_of_text => {
                "`|float(0.0)` reads a text as a number, and gives 0.0 where it is none"
            }
            "none" => "what is not given has the default of its parameter: compare with that",
            _ => "types are known at load: remove the test",
        };
        let message = format!(
            "`is {name}` is always {holds} here: this is {}",
            value.describe()
        );
        self.report.warning(place, message, hint);
    }

    pub(super) fn divisible(
        &mut self,
        value: Operand,
        by: Operand,
        wanted: bool,
        place: Place<'a>,
    ) -> Result<Operand> {
        let is_int =
            |operand: &Operand| operand.scalar().is_some_and(|(kind, _)| kind == Type::Int);
        if !is_int(&value) || !is_int(&by) {
            return Err(self.error(
                place,
                format!("{} is no integer", value.describe()),
                "apply `|int` first",
            ));
        }
        let rest = self.integer_arithmetic(Arithmetic::Remainder, &value, &by)?;
        let comparison = if wanted {
            Comparison::Equal
        } else {
            Comparison::NotEqual
        };
        self.compare(comparison, &rest, &Operand::int(0), place)
    }
}

fn takes_argument(name: &str) -> bool {
    matches!(
        name,
        "divisibleby"
            | "eq"
            | "equalto"
            | "ne"
            | "lt"
            | "lessthan"
            | "le"
            | "gt"
            | "greaterthan"
            | "ge"
            | "in"
            | "startingwith"
            | "endingwith"
    )
}

/// Whether a test of what a value is holds: its type says so.
fn type_holds(name: &str, value: &Operand) -> bool {
    let kind = value.scalar().map(|(kind, _)| kind);
    match name {
        "number" => matches!(kind, Some(Type::Int | Type::Float | Type::Bool)),
        "integer" | "int" => kind == Some(Type::Int),
        "float" => kind == Some(Type::Float),
        "string" => kind == Some(Type::Text),
        "boolean" => kind == Some(Type::Bool),
        "none" => *value == Operand::None,
        "sequence" => {
            matches!(value, Operand::List(list) if !matches!(list.items, Items::Range { .. }))
                || matches!(value, Operand::Group { .. })
        }
        "mapping" => matches!(
            value,
            Operand::Row { .. } | Operand::Record(_) | Operand::Map(_)
        ),
        "safe" | "escaped" => value.is_safe(),
        "defined" => *value != Operand::Undefined,
        "iterable" => {
            matches!(
                value,
                Operand::List(_) | Operand::Map(_) | Operand::Group { .. }
            ) || kind == Some(Type::Text)
        }
        _ => false,
    }
}
