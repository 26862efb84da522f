//! Tests: `value is test`.

use super::compiler::{Compiler, Result};
use super::value::Operand;
use crate::diagnostic::{Place, did_you_mean};
use crate::program::{Arithmetic, Comparison, Op, TextTest, Type, Unary};
use minijinja::machinery::ast::{self, Spanned};

/// The tests there are.
const TESTS: [&str; 27] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
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
    "lt",
    "ne",
    "none",
    "number",
    "odd",
    "startingwith",
    "string",
    "true",
    "undefined",
    "iterable",
];

impl<'a> Compiler<'_, 'a> {
    /// A test, of which a branch may depend.
    pub(super) fn test(&mut self, node: &Spanned<ast::Test<'_>>, decides: bool) -> Result<Operand> {
        let place = self.origin.at(node.span());
        let name = node.name;
        let takes_argument = matches!(
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
        );
        if !TESTS.contains(&name) {
            let hint = did_you_mean(name, TESTS);
            return Err(self.error(place, format!("there is no test `{name}`"), hint));
        }
        let what = format!("the test `{name}`");
        let parameters: &[&str] = if takes_argument { &[""] } else { &[] };
        let arguments = self.arguments(&what, parameters, &node.args, place)?;
        if matches!(name, "defined" | "undefined") {
            let value = self.optional(&node.expr)?;
            return Ok(Operand::bool(
                (value == Operand::Undefined) == (name == "undefined"),
            ));
        }
        let value = self.expression(&node.expr)?;
        let kind = value.scalar().map(|(kind, _)| kind);
        let other = match arguments.first() {
            Some(Some(other)) if name == "in" => return self.contains(&value, other, place),
            Some(Some(other)) => Some(self.expression(other)?),
            Some(None) => {
                let hint = format!("is {name}(...)");
                return Err(self.error(place, format!("{what} takes an argument"), hint));
            }
            None => None,
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
        "iterable" => {
            matches!(value, Operand::List(_) | Operand::Range { .. }) || kind == Some(Type::Text)
        }
        _ => false,
    }
}
