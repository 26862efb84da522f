//! Operators: arithmetic, comparisons, `in`, `~`, `and` and `or`.

use super::build::OpenBlock;
use super::compiler::{Compiler, Result};
use super::value::{Given, List, Literal, Operand};
use crate::diagnostic::{Place, Reported};
use crate::program::{
    Arithmetic, Binary, Comparison, Conversion, If, Op, Register, TextTest, Type, Unary,
};
use minijinja::machinery::ast::{self, BinOpKind, CompareOpKind, Expr};
use std::cmp::Ordering;
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    pub(super) fn binary(&mut self, node: &ast::BinOp<'_>, place: Place<'a>) -> Result<Operand> {
        let comparison = match node.op {
            BinOpKind::Eq => Some(Comparison::Equal),
            BinOpKind::Ne => Some(Comparison::NotEqual),
            BinOpKind::Lt => Some(Comparison::Less),
            BinOpKind::Lte => Some(Comparison::LessOrEqual),
            BinOpKind::Gt => Some(Comparison::Greater),
            BinOpKind::Gte => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        if let Some(comparison) = comparison {
            let left = self.expression(&node.left);
            let right = self.expression(&node.right)?;
            return self.compare(comparison, &left?, &right, place);
        }
        let operator = match node.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => return self.and_or(node, place),
            BinOpKind::In => {
                let value = self.expression(&node.left)?;
                return self.contains(&value, &node.right, place);
            }
            BinOpKind::Concat => {
                let left = self.expression(&node.left);
                let right = self.expression(&node.right)?;
                let parts = [self.printable(left?, place)?, self.printable(right, place)?];
                return Ok(self.concat(&parts));
            }
            BinOpKind::Add => Arithmetic::Add,
            BinOpKind::Sub => Arithmetic::Subtract,
            BinOpKind::Mul => Arithmetic::Multiply,
            BinOpKind::Div => Arithmetic::Divide,
            BinOpKind::FloorDiv => Arithmetic::FloorDivide,
            BinOpKind::Rem => Arithmetic::Remainder,
            _ => Arithmetic::Power,
        };
        let left = self.expression(&node.left);
        let right = self.expression(&node.right)?;
        self.arithmetic(operator, left?, right, place)
    }

    /// `and` and `or` as values: one of the operands.
    pub(super) fn and_or(&mut self, node: &ast::BinOp<'_>, place: Place<'a>) -> Result<Operand> {
        let is_and = matches!(node.op, BinOpKind::ScAnd);
        let left = self.expression(&node.left)?;
        let condition = self.truth(left.clone(), place)?;
        if let Operand::Literal(literal) = &condition {
            return if literal.truth() == is_and {
                self.expression(&node.right)
            } else {
                Ok(left)
            };
        }
        let condition = self.register(&condition);
        let (block, right) = self.in_block(&node.right);
        let right = (block, right?);
        let left = (OpenBlock::default(), left);
        let (then, otherwise) = if is_and { (right, left) } else { (left, right) };
        self.select(condition, then, otherwise).map_err(|reason| {
            let hint =
                "`and` and `or` give one of their operands; use `if` to choose between types";
            self.error(place, format!("this has no single type: {reason}"), hint)
        })
    }

    pub(super) fn minus(&mut self, operand: Operand, place: Place<'a>) -> Result<Operand> {
        match &operand {
            Operand::Literal(Literal::Int(value)) if *value != i64::MIN => {
                return Ok(Operand::int(-value));
            }
            Operand::Literal(Literal::Float(value)) => {
                return Ok(Operand::Literal(Literal::Float(-value)));
            }
            _ => {}
        }
        match operand.scalar() {
            Some((kind @ (Type::Int | Type::Float), _)) => {
                let from = self.register(&operand);
                Ok(Operand::register(
                    self.stage.other(kind, |to| Op::Negate(Unary { to, from })),
                    kind,
                ))
            }
            Some(_) => {
                let message = format!("{} has no negative", operand.describe());
                Err(self.error(place, message, "`|int` or `|float` makes it a number"))
            }
            None => {
                let message = format!("{} has no negative", operand.describe());
                Err(self.error(place, message, operand.parts()))
            }
        }
    }

    /// A number: booleans count as 0 and 1.
    pub(super) fn number(&mut self, operand: Operand, place: Place<'a>) -> Result<(Operand, Type)> {
        match operand.scalar() {
            Some((kind @ (Type::Int | Type::Float), _)) => Ok((operand, kind)),
            Some((Type::Bool, _)) => {
                if let Operand::Literal(literal) = &operand {
                    return Ok((Operand::int(i64::from(literal.truth())), Type::Int));
                }
                let from = self.register(&operand);
                let register = self.stage.convert(Conversion::BoolToInt, from);
                Ok((Operand::register(register, Type::Int), Type::Int))
            }
            Some((Type::Text, _)) => {
                let hint = "`|int` or `|float` makes it a number; `~` joins texts";
                Err(self.error(place, "a text is no number", hint))
            }
            None => {
                let message = format!("{} is no number", operand.describe());
                Err(self.error(place, message, operand.parts()))
            }
        }
    }

    pub(super) fn float(&mut self, operand: &Operand) -> Operand {
        match operand {
            Operand::Literal(Literal::Int(value)) => {
                Operand::Literal(Literal::Float(*value as f64))
            }
            operand if operand.scalar().is_some_and(|(kind, _)| kind == Type::Int) => {
                let from = self.register(operand);
                Operand::register(
                    self.stage.convert(Conversion::IntToFloat, from),
                    Type::Float,
                )
            }
            operand => operand.clone(),
        }
    }

    pub(super) fn arithmetic(
        &mut self,
        operator: Arithmetic,
        left: Operand,
        right: Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        let texts = [&left, &right].map(|o| o.scalar().is_some_and(|(kind, _)| kind == Type::Text));
        if operator == Arithmetic::Add && texts == [true, true] {
            return Ok(self.concat(&[left, right]));
        }
        if operator == Arithmetic::Multiply && texts[0] != texts[1] {
            let hint = "{% for i in range(n) %}*{% endfor %} writes one n times; `|int` makes a \
                        number of a text";
            return Err(self.error(place, "a text is not repeated by `*`", hint));
        }
        let (left, left_kind) = self.number(left, place)?;
        let (right, right_kind) = self.number(right, place)?;
        let negative_power = operator == Arithmetic::Power
            && matches!(&right, Operand::Literal(Literal::Int(exponent)) if *exponent < 0);
        if left_kind == Type::Int
            && right_kind == Type::Int
            && operator != Arithmetic::Divide
            && !negative_power
        {
            let divides = matches!(operator, Arithmetic::FloorDivide | Arithmetic::Remainder);
            if divides && matches!(right, Operand::Literal(Literal::Int(0))) {
                return Err(self.error(place, "this divides by zero", "every request would fail"));
            }
            return self.integer_arithmetic(operator, &left, &right);
        }
        let (left, right) = (self.float(&left), self.float(&right));
        let (left, right) = (self.register(&left), self.register(&right));
        let register = self.stage.arithmetic(operator, Type::Float, left, right);
        Ok(Operand::register(register, Type::Float))
    }

    pub(super) fn integer_arithmetic(
        &mut self,
        operator: Arithmetic,
        left: &Operand,
        right: &Operand,
    ) -> Result<Operand> {
        if let (Operand::Literal(Literal::Int(a)), Operand::Literal(Literal::Int(b))) =
            (left, right)
        {
            let result = match operator {
                Arithmetic::Add => a.checked_add(*b),
                Arithmetic::Subtract => a.checked_sub(*b),
                Arithmetic::Multiply => a.checked_mul(*b),
                Arithmetic::FloorDivide if *b > 0 => Some(a.div_euclid(*b)),
                Arithmetic::Remainder if *b > 0 => Some(a.rem_euclid(*b)),
                // The rest is left to the executors, and so is failing.
                _ => None,
            };
            if let Some(result) = result {
                return Ok(Operand::int(result));
            }
        }
        let (left, right) = (self.register(left), self.register(right));
        let register = self.stage.arithmetic(operator, Type::Int, left, right);
        Ok(Operand::register(register, Type::Int))
    }

    pub(super) fn comparison_chain(
        &mut self,
        left: Operand,
        ops: &[ast::CompareOp<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let Some((first, rest)) = ops.split_first() else {
            return Ok(Operand::bool(true));
        };
        let comparison = match first.op {
            CompareOpKind::Eq => Comparison::Equal,
            CompareOpKind::Ne => Comparison::NotEqual,
            CompareOpKind::Lt => Comparison::Less,
            CompareOpKind::Lte => Comparison::LessOrEqual,
            CompareOpKind::Gt => Comparison::Greater,
            CompareOpKind::Gte => Comparison::GreaterOrEqual,
            CompareOpKind::In | CompareOpKind::NotIn => {
                return Err(self.unsupported(
                    place,
                    "`in` within a chain of comparisons",
                    "join them with `and`",
                ));
            }
        };
        let right = self.expression(&first.expr)?;
        let holds = self.compare(comparison, &left, &right, place)?;
        if rest.is_empty() {
            return Ok(holds);
        }
        self.logical(true, holds, |this| {
            this.nested(place, |this| this.comparison_chain(right, rest, place))
        })
    }

    /// Compares two values of one type.
    pub(super) fn compare(
        &mut self,
        comparison: Comparison,
        left: &Operand,
        right: &Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        if let (Operand::Literal(left), Operand::Literal(right)) = (left, right)
            && let Some(ordering) = order(left, right)
        {
            return Ok(Operand::bool(comparison.holds(ordering)));
        }
        // What is not there equals nothing.
        if let (Operand::Perhaps { there, of }, other) | (other, Operand::Perhaps { there, of }) =
            (left, right)
            && let Comparison::Equal | Comparison::NotEqual = comparison
        {
            let there = Operand::register(*there, Type::Bool);
            let equal = self.logical(true, there, |this| {
                this.compare(Comparison::Equal, of, other, place)
            })?;
            return Ok(match comparison {
                Comparison::Equal => equal,
                _ => self.negation(equal),
            });
        }
        let (Some((left_kind, _)), Some((right_kind, _))) = (left.scalar(), right.scalar()) else {
            let message = format!(
                "{} and {} cannot be compared",
                left.describe(),
                right.describe()
            );
            return Err(self.error(
                place,
                message,
                "test with `is defined` or `is none`, compare values",
            ));
        };
        // Integers above 2^53 have no float of their own; against a smaller constant that does not
        // matter.
        let small = |operand: &Operand| match operand {
            Operand::Literal(Literal::Float(value)) => value.abs() < 9.0e15,
            _ => false,
        };
        let (left, right) = match (left_kind, right_kind) {
            (a, b) if a == b => (left.clone(), right.clone()),
            (Type::Int, Type::Float) if small(right) => (self.float(left), right.clone()),
            (Type::Float, Type::Int) if small(left) => (left.clone(), self.float(right)),
            (Type::Float, Type::Int) if matches!(right, Operand::Literal(_)) => {
                (left.clone(), self.float(right))
            }
            (Type::Int, Type::Float) if matches!(left, Operand::Literal(_)) => {
                (self.float(left), right.clone())
            }
            _ => {
                let message = format!(
                    "{} and {} cannot be compared",
                    left.describe(),
                    right.describe()
                );
                let literal = |operand: &Operand| matches!(operand, Operand::Literal(_));
                let literal_is_text = (literal(left) && left_kind == Type::Text)
                    || (literal(right) && right_kind == Type::Text);
                let hint = match (left_kind, right_kind) {
                    (Type::Text, Type::Int) | (Type::Int, Type::Text) if literal_is_text => {
                        "write the number without quotes"
                    }
                    (Type::Text, Type::Int) | (Type::Int, Type::Text) => {
                        "put the number in quotes, or apply `|int` to the text, \
                         or declare it as an integer"
                    }
                    (Type::Text, Type::Float) | (Type::Float, Type::Text) => {
                        "apply `|float` to the text"
                    }
                    (Type::Int, Type::Float) | (Type::Float, Type::Int) => {
                        "apply `|float` to the integer"
                    }
                    _ => "a boolean is a condition itself",
                };
                return Err(self.error(place, message, hint));
            }
        };
        let (left, right) = (self.register(&left), self.register(&right));
        Ok(Operand::register(
            self.stage.compare(comparison, left, right),
            Type::Bool,
        ))
    }

    /// `value in container`
    pub(super) fn contains(
        &mut self,
        value: &Operand,
        container: &Expr<'_>,
        place: Place<'a>,
    ) -> Result<Operand> {
        match self.container(container)? {
            Given::Items(items) => self.contained_in_items(value, &items, place),
            Given::One(container) => self.contained(value, &container, place),
            Given::Nothing => Err(Reported),
        }
    }

    /// What `in` looks into.
    pub(super) fn container(&mut self, container: &Expr<'_>) -> Result<Given> {
        let items = match container {
            Expr::List(list) => &list.items,
            Expr::Tuple(tuple) => &tuple.items,
            other => return Ok(Given::One(Box::new(self.expression(other)?))),
        };
        let items = items.iter().map(|item| self.expression(item));
        Ok(Given::Items(items.collect::<Result<_>>()?))
    }

    pub(super) fn contained_in_items(
        &mut self,
        value: &Operand,
        items: &[Operand],
        place: Place<'a>,
    ) -> Result<Operand> {
        let mut found = Operand::bool(false);
        for item in items {
            found = self.logical(false, found, |this| {
                this.compare(Comparison::Equal, value, item, place)
            })?;
        }
        Ok(found)
    }

    /// Whether a text has another in it, or a list a value.
    pub(super) fn contained(
        &mut self,
        value: &Operand,
        container: &Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        if let (Operand::Literal(Literal::Text { text: left, .. }), Operand::Literal(right)) =
            (container, value)
        {
            return Ok(Operand::bool(left.contains(&*right.print())));
        }
        match container.scalar() {
            Some((Type::Text, _)) => {
                let value = self.printable(value.clone(), place)?;
                let left = self.register(container);
                let right = self.text_register(&value);
                Ok(self.text_test(TextTest::Contains, left, right))
            }
            _ => match container {
                Operand::List(list) if list.is_plain() => self.contained_in(value, list, place),
                Operand::Map(pairs) => {
                    let keys = self.keys_of(pairs);
                    self.contained(value, &keys, place)
                }
                other => {
                    let message = format!("`in` cannot look into {}", other.describe());
                    let hint = "it looks into texts and lists: x in [\"a\", \"b\"], \
                                x in rows|map(attribute=\"name\")";
                    Err(self.error(place, message, hint))
                }
            },
        }
    }

    fn contained_in(
        &mut self,
        value: &Operand,
        list: &Rc<List>,
        place: Place<'a>,
    ) -> Result<Operand> {
        let found = self.copied(&Operand::bool(false), Type::Bool);
        self.through(list, |this, position, _| {
            let item = this.item(&Operand::List(list.clone()), position)?;
            let is_equal = this.compare(Comparison::Equal, value, &item, place)?;
            let condition = this.register(&is_equal);
            let yes = this.register(&Operand::bool(true));
            let then = vec![Op::Copy(Unary {
                to: found,
                from: yes,
            })];
            this.stage.push(Op::If(If {
                condition,
                then,
                otherwise: Vec::new(),
            }));
            Ok(())
        })??;
        Ok(Operand::register(found, Type::Bool))
    }

    pub(super) fn text_test(&mut self, test: TextTest, left: Register, right: Register) -> Operand {
        let register = self.stage.other(Type::Bool, |to| {
            Op::TextTest(test, Binary { to, left, right })
        });
        Operand::register(register, Type::Bool)
    }
}

/// The order of two literals that can be compared.
fn order(left: &Literal, right: &Literal) -> Option<Ordering> {
    Some(match (left, right) {
        (Literal::Text { text: a, .. }, Literal::Text { text: b, .. }) => a.cmp(b),
        (Literal::Int(a), Literal::Int(b)) => a.cmp(b),
        (Literal::Bool(a), Literal::Bool(b)) => a.cmp(b),
        (Literal::Float(a), Literal::Float(b)) => a.partial_cmp(b)?,
        _ => return None,
    })
}
