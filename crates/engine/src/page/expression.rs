//! Expressions: to operands, with every type known.

use super::build::OpenBlock;
use super::diagnostic::{Place, Reported, did_you_mean};
use super::program::{Arithmetic, Comparison, Constant, Conversion, Op, Register, TextTest, Type};
use super::statement::{Compiler, MacroDefinition, Result};
use super::value::{Items, List, Literal, Operand};
use minijinja::machinery::ast::{self, BinOpKind, CallType, CompareOpKind, Expr};
use minijinja::value::ValueKind;
use std::cmp::Ordering;
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    /// Where an expression begins.
    pub(crate) fn place_of(&self, expression: &Expr<'_>) -> Place<'a> {
        let mut leftmost = expression;
        loop {
            leftmost = match leftmost {
                Expr::BinOp(node) => &node.left,
                Expr::Compare(node) => &node.expr,
                Expr::IfExpr(node) => &node.true_expr,
                Expr::Test(node) => &node.expr,
                Expr::Filter(node) => match &node.expr {
                    Some(inner) => inner,
                    None => break,
                },
                _ => break,
            };
        }
        self.origin.at(leftmost.span())
    }

    /// Compiles an expression.
    pub(crate) fn expression(&mut self, expression: &Expr<'_>) -> Result<Operand> {
        let place = self.place_of(expression);
        let operand = self.nested(place, |this| this.expression_inside(expression, place))?;
        self.usable(operand, expression)
    }

    /// Reports operands that have no value.
    fn usable(&mut self, operand: Operand, expression: &Expr<'_>) -> Result<Operand> {
        let place = self.place_of(expression);
        let name = match expression {
            Expr::Var(name) => name.id,
            _ => "this",
        };
        match operand {
            Operand::Poison => Err(Reported),
            Operand::Maybe => {
                let hint = format!("set `{name}` before the `if`, or in its `else` too");
                Err(self.error(
                    place,
                    format!("`{name}` is not set on every path that leads here"),
                    hint,
                ))
            }
            Operand::Conflict(reason) => Err(self.error(
                place,
                format!("`{name}` has no single type here: {reason}"),
                "",
            )),
            operand => Ok(operand),
        }
    }

    fn expression_inside(&mut self, expression: &Expr<'_>, place: Place<'a>) -> Result<Operand> {
        match expression {
            Expr::Var(name) => match self.scope.lookup(name.id) {
                Some(operand) => Ok(operand),
                None => {
                    let visible = self.scope.visible();
                    let hint = did_you_mean(name.id, visible.keys().map(String::as_str));
                    Err(self.error(place, format!("unknown name `{}`", name.id), hint))
                }
            },
            Expr::Const(node) => self.literal(&node.value, place),
            Expr::IfExpr(node) => self.if_expression(node, place),
            Expr::UnaryOp(node) => match node.op {
                ast::UnaryOpKind::Not => {
                    let operand = self.condition(&node.expr)?;
                    Ok(self.negation(operand))
                }
                ast::UnaryOpKind::Neg => {
                    let operand = self.expression(&node.expr)?;
                    self.minus(operand, place)
                }
            },
            Expr::BinOp(node) => self.binary(node, place),
            Expr::Compare(node) => {
                let left = self.expression(&node.expr)?;
                self.comparison_chain(left, &node.ops, place)
            }
            Expr::Filter(node) => self.filter(node),
            Expr::Test(node) => self.test(node),
            Expr::GetAttr(node) => {
                let base = self.expression(&node.expr)?;
                let place = self.origin.at(node.span());
                match self.attribute(&base, node.name)? {
                    Some(operand) => Ok(operand),
                    None => Err(self.no_attribute(&base, node.name, place)),
                }
            }
            Expr::GetItem(node) => self.get_item(node, place),
            Expr::Call(node) => self.call(node),
            Expr::List(node) => self.constant_list(&node.items, place),
            Expr::Tuple(node) => self.constant_list(&node.items, place),
            Expr::Map(_) => Err(self.unsupported(
                place,
                "a map",
                "a list may hold maps of constants: [{a: 1}, {a: 2}]",
            )),
            Expr::Slice(_) => Err(self.unsupported(place, "a slice", "")),
        }
    }

    /// A name or a chain of names, [`Operand::Undefined`] where it has no value; else any expression.
    pub(crate) fn optional(&mut self, expression: &Expr<'_>) -> Result<Operand> {
        let operand = match expression {
            Expr::Var(name) => self.scope.lookup(name.id).unwrap_or(Operand::Undefined),
            Expr::GetAttr(node) => match self.optional(&node.expr)? {
                Operand::Undefined => Operand::Undefined,
                base => self
                    .attribute(&base, node.name)?
                    .unwrap_or(Operand::Undefined),
            },
            _ => return self.expression(expression),
        };
        self.usable(operand, expression)
    }

    fn literal(&mut self, value: &minijinja::Value, place: Place<'a>) -> Result<Operand> {
        let literal = match value.kind() {
            ValueKind::None => return Ok(Operand::None),
            ValueKind::Bool => Some(Literal::Bool(value.is_true())),
            ValueKind::String => value.as_str().map(Literal::text),
            ValueKind::Number if value.is_integer() => {
                i64::try_from(value.clone()).ok().map(Literal::Int)
            }
            ValueKind::Number => f64::try_from(value.clone()).ok().map(Literal::Float),
            _ => None,
        };
        literal.map(Operand::Literal).ok_or_else(|| {
            let message = "this constant is out of range";
            self.error(place, message, "integers have 64 bits")
        })
    }

    /// A condition as `if` sees it: a literal or a boolean register.
    pub(crate) fn condition(&mut self, expression: &Expr<'_>) -> Result<Operand> {
        let place = self.place_of(expression);
        match expression {
            Expr::BinOp(node) if matches!(node.op, BinOpKind::ScAnd | BinOpKind::ScOr) => {
                let is_and = matches!(node.op, BinOpKind::ScAnd);
                let left = self.nested(place, |this| this.condition(&node.left))?;
                self.logical(is_and, left, |this| {
                    this.nested(place, |this| this.condition(&node.right))
                })
            }
            Expr::UnaryOp(node) if matches!(node.op, ast::UnaryOpKind::Not) => {
                let operand = self.nested(place, |this| this.condition(&node.expr))?;
                Ok(self.negation(operand))
            }
            _ => {
                let operand = self.expression(expression)?;
                self.truth(operand, place)
            }
        }
    }

    fn truth(&mut self, operand: Operand, place: Place<'a>) -> Result<Operand> {
        Ok(match operand {
            Operand::Literal(literal) => Operand::bool(literal.truth()),
            Operand::Undefined | Operand::None => Operand::bool(false),
            Operand::Row { .. } | Operand::Record(_) => Operand::bool(true),
            Operand::List(list) => {
                let length = self.length_of(&list);
                self.compare(Comparison::NotEqual, &length, &Operand::int(0), place)?
            }
            Operand::Range { count, .. } => {
                self.compare(Comparison::Greater, &count, &Operand::int(0), place)?
            }
            operand => match operand.scalar() {
                Some((Type::Bool, _)) => operand,
                Some(_) => {
                    let from = self.register(&operand);
                    Operand::register(self.stage.truth(from), Type::Bool)
                }
                None => {
                    let hint = match operand {
                        Operand::Session { .. } => "`session.present` tells whether there is one",
                        _ => "",
                    };
                    let message = format!("{} is no condition", operand.describe());
                    return Err(self.error(place, message, hint));
                }
            },
        })
    }

    fn negation(&mut self, operand: Operand) -> Operand {
        match operand {
            Operand::Literal(literal) => Operand::bool(!literal.truth()),
            operand => {
                let from = self.register(&operand);
                Operand::register(
                    self.stage.other(Type::Bool, |to| Op::Not { to, from }),
                    Type::Bool,
                )
            }
        }
    }

    /// The register of an operand that is known to be scalar.
    pub(crate) fn register(&mut self, operand: &Operand) -> Register {
        self.stage
            .register(operand, self.page)
            .expect("only scalar operands are put into registers")
    }

    /// `left and right`, `left or right`, of conditions; the right one is computed where it counts only.
    fn logical(
        &mut self,
        is_and: bool,
        left: Operand,
        right: impl FnOnce(&mut Self) -> Result<Operand>,
    ) -> Result<Operand> {
        if let Operand::Literal(literal) = &left {
            return if literal.truth() == is_and {
                right(self)
            } else {
                Ok(left)
            };
        }
        let condition = self.register(&left);
        self.stage.open();
        let right = right(self);
        let block = self.stage.close(self.fragments);
        let right = (block, right?);
        let short = (OpenBlock::default(), Operand::bool(!is_and));
        let (then, otherwise) = if is_and {
            (right, short)
        } else {
            (short, right)
        };
        // Both are booleans, so they go together.
        self.select(condition, then, otherwise)
            .map_err(|_| Reported)
    }

    /// Compiles an expression into a block of its own.
    fn in_block(&mut self, expression: &Expr<'_>) -> (OpenBlock, Result<Operand>) {
        self.stage.open();
        let operand = self.expression(expression);
        (self.stage.close(self.fragments), operand)
    }

    fn if_expression(&mut self, node: &ast::IfExpr<'_>, place: Place<'a>) -> Result<Operand> {
        let condition = self.condition(&node.test_expr)?;
        if let Operand::Literal(literal) = &condition {
            return match (literal.truth(), &node.false_expr) {
                (true, _) => self.expression(&node.true_expr),
                (false, Some(expression)) => self.expression(expression),
                (false, None) => Ok(Operand::Undefined),
            };
        }
        let Some(false_expr) = &node.false_expr else {
            let hint = "... if ... else ...";
            return Err(self.error(
                place,
                "this has no value where the condition is false",
                hint,
            ));
        };
        let condition = self.register(&condition);
        let (then_block, then) = self.in_block(&node.true_expr);
        let (else_block, otherwise) = self.in_block(false_expr);
        self.select(condition, (then_block, then?), (else_block, otherwise?))
            .map_err(|reason| self.error(place, format!("this has no single type: {reason}"), ""))
    }

    fn binary(&mut self, node: &ast::BinOp<'_>, place: Place<'a>) -> Result<Operand> {
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
                return Ok(self.stage.concat(&parts, false, self.page));
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
    fn and_or(&mut self, node: &ast::BinOp<'_>, place: Place<'a>) -> Result<Operand> {
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

    /// An operand that has a text.
    pub(crate) fn printable(&mut self, operand: Operand, place: Place<'a>) -> Result<Operand> {
        match operand {
            Operand::None => Ok(Operand::text("None")),
            Operand::Undefined => Ok(Operand::text("")),
            operand if operand.scalar().is_some() => Ok(operand),
            operand => Err(self.error(place, format!("{} has no text", operand.describe()), "")),
        }
    }

    fn minus(&mut self, operand: Operand, place: Place<'a>) -> Result<Operand> {
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
                    self.stage.other(kind, |to| Op::Negate { to, from }),
                    kind,
                ))
            }
            _ => Err(self.error(place, format!("{} has no negative", operand.describe()), "")),
        }
    }

    /// A number: booleans count as 0 and 1.
    fn number(&mut self, operand: Operand, place: Place<'a>) -> Result<(Operand, Type)> {
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
            None => Err(self.error(place, format!("{} is no number", operand.describe()), "")),
        }
    }

    pub(crate) fn float(&mut self, operand: &Operand) -> Operand {
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

    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        left: Operand,
        right: Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        let texts = [&left, &right].map(|o| o.scalar().is_some_and(|(kind, _)| kind == Type::Text));
        if operator == Arithmetic::Add && texts == [true, true] {
            return Ok(self.stage.concat(&[left, right], false, self.page));
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
            return self.integer_arithmetic(operator, &left, &right);
        }
        let (left, right) = (self.float(&left), self.float(&right));
        let (left, right) = (self.register(&left), self.register(&right));
        let register = self.stage.arithmetic(operator, Type::Float, left, right);
        Ok(Operand::register(register, Type::Float))
    }

    pub(crate) fn integer_arithmetic(
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

    fn comparison_chain(
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
    pub(crate) fn compare(
        &mut self,
        comparison: Comparison,
        left: &Operand,
        right: &Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        if let (Operand::Literal(left), Operand::Literal(right)) = (left, right)
            && let Some(ordering) = order(left, right)
        {
            return Ok(Operand::bool(holds(comparison, ordering)));
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
        // Integers above 2^53 have no float of their own; against a smaller constant that does not matter.
        let small = |operand: &Operand| matches!(operand, Operand::Literal(Literal::Float(value)) if value.abs() < 9.0e15);
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
                        "put the number in quotes, or apply `|int` to the text, or declare it as an integer"
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
    pub(crate) fn contains(
        &mut self,
        value: &Operand,
        container: &Expr<'_>,
        place: Place<'a>,
    ) -> Result<Operand> {
        let items = match container {
            Expr::List(list) => Some(&list.items),
            Expr::Tuple(tuple) => Some(&tuple.items),
            _ => None,
        };
        if let Some(items) = items {
            let mut found = Operand::bool(false);
            for item in items {
                let item = self.expression(item)?;
                found = self.logical(false, found, |this| {
                    this.compare(Comparison::Equal, value, &item, place)
                })?;
            }
            return Ok(found);
        }
        let container = self.expression(container)?;
        if let (Operand::Literal(Literal::Text { text: left, .. }), Operand::Literal(right)) =
            (&container, value)
        {
            return Ok(Operand::bool(left.contains(&*right.print())));
        }
        match container.scalar() {
            Some((Type::Text, _)) => {
                let value = self.printable(value.clone(), place)?;
                let left = self.register(&container);
                let right = self.text_register(&value);
                Ok(self.text_test(TextTest::Contains, left, right))
            }
            _ => {
                let message = format!("`in` cannot look into {}", container.describe());
                let hint = "`in` looks into a text or a list written out: x in [\"a\", \"b\"]";
                Err(self.error(place, message, hint))
            }
        }
    }

    pub(crate) fn text_test(&mut self, test: TextTest, left: Register, right: Register) -> Operand {
        let register = self.stage.other(Type::Bool, |to| Op::TextTest {
            test,
            to,
            left,
            right,
        });
        Operand::register(register, Type::Bool)
    }

    pub(crate) fn text_register(&mut self, operand: &Operand) -> Register {
        self.stage
            .text_register(operand, self.page)
            .expect("only scalar operands are put into registers")
    }

    /// An attribute, `None` where there is none of this name.
    fn attribute(&mut self, base: &Operand, name: &str) -> Result<Option<Operand>> {
        let field = |field: u16| Operand::Field {
            field,
            kind: Type::Int,
        };
        Ok(match base {
            Operand::Record(names) | Operand::Module(names) => names.get(name).cloned(),
            Operand::Row { list, position } => {
                let column = list.columns.iter().position(|(column, _)| column == name);
                column.map(|column| Operand::Column {
                    list: list.clone(),
                    column: column as u16,
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

    fn no_attribute(&mut self, base: &Operand, name: &str, place: Place<'a>) -> Reported {
        let hint = match base {
            Operand::Record(names) | Operand::Module(names) => {
                did_you_mean(name, names.keys().map(String::as_str))
            }
            Operand::Row { list, .. } => {
                did_you_mean(name, list.columns.iter().map(|(name, _)| name.as_str()))
            }
            Operand::List(_) => {
                "go through the list with `for`, or take an item: rows[0]".to_owned()
            }
            Operand::Session { .. } => did_you_mean(name, ["userid", "present"]),
            Operand::Loop(_) if ["previtem", "nextitem", "changed"].contains(&name) => {
                format!("`loop.{name}` is not supported")
            }
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
                    "depth",
                    "depth0",
                ],
            ),
            _ => String::new(),
        };
        self.error(place, format!("{} has no `{name}`", base.describe()), hint)
    }

    fn get_item(&mut self, node: &ast::GetItem<'_>, place: Place<'a>) -> Result<Operand> {
        let base = self.expression(&node.expr)?;
        let subscript = self.expression(&node.subscript_expr)?;
        match (&base, &subscript) {
            (_, Operand::Literal(Literal::Text { text, .. })) => {
                match self.attribute(&base, text)? {
                    Some(operand) => Ok(operand),
                    None => Err(self.no_attribute(&base, text, place)),
                }
            }
            (Operand::Row { .. }, Operand::Literal(Literal::Int(index))) => {
                let name = index.to_string();
                match self.attribute(&base, &name)? {
                    Some(operand) => Ok(operand),
                    None => Err(self.no_attribute(&base, &name, place)),
                }
            }
            (Operand::List(list), _)
                if subscript
                    .scalar()
                    .is_some_and(|(kind, _)| kind == Type::Int) =>
            {
                let position = match &subscript {
                    Operand::Literal(Literal::Int(index)) if *index < 0 => {
                        let length = self.length_of(list);
                        self.integer_arithmetic(Arithmetic::Add, &length, &subscript)?
                    }
                    _ => subscript,
                };
                let position = self.register(&position);
                self.item(&base, position)
            }
            _ => {
                let message = format!(
                    "{} has no item by {}",
                    base.describe(),
                    subscript.describe()
                );
                Err(self.error(
                    place,
                    message,
                    "lists have items by position, records by name",
                ))
            }
        }
    }

    /// The arguments of a call by the names of its parameters.
    pub(crate) fn arguments<'e, 's>(
        &mut self,
        what: &str,
        names: &[&str],
        arguments: &'e [ast::CallArg<'s>],
        place: Place<'a>,
    ) -> Result<Vec<Option<&'e Expr<'s>>>> {
        let mut found: Vec<Option<&Expr<'s>>> = vec![None; names.len()];
        for (index, argument) in arguments.iter().enumerate() {
            let (index, expression) = match argument {
                ast::CallArg::Pos(expression) => (Some(index), expression),
                ast::CallArg::Kwarg(name, expression) => {
                    let index = names.iter().position(|known| known == name);
                    if index.is_none() {
                        let named = names.iter().copied().filter(|known| !known.is_empty());
                        let hint = did_you_mean(name, named);
                        return Err(self.error(
                            place,
                            format!("{what} has no parameter `{name}`"),
                            hint,
                        ));
                    }
                    (index, expression)
                }
                _ => return Err(self.unsupported(place, "`*` before an argument", "")),
            };
            match index.and_then(|index| found.get_mut(index)) {
                Some(slot @ None) => *slot = Some(expression),
                Some(Some(_)) => {
                    return Err(self.error(
                        place,
                        format!("{what} is given an argument twice"),
                        "",
                    ));
                }
                None => {
                    let message = format!("{what} takes {} arguments at most", names.len());
                    return Err(self.error(place, message, ""));
                }
            }
        }
        Ok(found)
    }

    /// A call's macro and its arguments, if it calls one.
    pub(crate) fn macro_call(
        &mut self,
        call: &ast::Spanned<ast::Call<'_>>,
    ) -> Result<Option<(MacroDefinition<'a>, Vec<Operand>)>> {
        let place = self.origin.at(call.span());
        let operand = match call.identify_call() {
            CallType::Function(name) => self.scope.lookup(name),
            CallType::Method(base, name) => match self.optional(base)? {
                Operand::Module(names) => names.get(name).cloned(),
                _ => None,
            },
            _ => None,
        };
        let definition = match operand {
            Some(Operand::Macro(index)) => self.macros[index],
            Some(Operand::Poison) => return Err(Reported),
            _ => return Ok(None),
        };
        let names: Vec<&str> = (definition.definition.args.iter())
            .map(|argument| match argument {
                Expr::Var(name) => name.id,
                _ => "",
            })
            .collect();
        let what = format!("the macro `{}`", definition.definition.name);
        let expressions = self.arguments(&what, &names, &call.args, place)?;
        let mut arguments = Vec::with_capacity(expressions.len());
        for expression in expressions {
            arguments.push(match expression {
                Some(expression) => self.expression(expression)?,
                None => Operand::Undefined,
            });
        }
        Ok(Some((definition, arguments)))
    }

    fn call(&mut self, call: &ast::Spanned<ast::Call<'_>>) -> Result<Operand> {
        let place = self.origin.at(call.span());
        if let Some((definition, arguments)) = self.macro_call(call)? {
            return self.capture(|this| this.expand_macro(definition, arguments, place));
        }
        match call.identify_call() {
            CallType::Function("range") => self.range(&call.args, place),
            CallType::Function("super") => self.captured_block(None, place),
            CallType::Block(name) => self.captured_block(Some(name), place),
            CallType::Method(base, "cycle") => {
                let base = self.expression(base)?;
                self.cycle(&base, &call.args, place)
            }
            CallType::Method(base, name) => {
                let base = self.expression(base)?;
                let hint = if base.scalar().is_some() {
                    format!("there are no methods; is there a filter `|{name}`?")
                } else {
                    String::new()
                };
                Err(self.error(
                    place,
                    format!("{} has no function `{name}`", base.describe()),
                    hint,
                ))
            }
            CallType::Function(name) => {
                let hint = match name {
                    "namespace" => {
                        "names set in a loop end with its turn; count with filters such as `|length`"
                    }
                    "caller" => "give the macro an argument",
                    "loop" => "recursive loops are not supported",
                    _ => "there are: range, and macros",
                };
                Err(self.error(place, format!("there is no function `{name}`"), hint))
            }
            CallType::Object(_) => Err(self.error(place, "this is no function", "")),
        }
    }

    fn range(&mut self, arguments: &[ast::CallArg<'_>], place: Place<'a>) -> Result<Operand> {
        let expressions = self.arguments("range", &["", "", ""], arguments, place)?;
        let mut bounds = Vec::new();
        for expression in expressions.into_iter().flatten() {
            let operand = self.expression(expression)?;
            if operand.scalar().is_none_or(|(kind, _)| kind != Type::Int) {
                let message = format!("range takes integers, not {}", operand.describe());
                return Err(self.error(place, message, ""));
            }
            bounds.push(operand);
        }
        let step = match bounds.get(2) {
            None => 1,
            Some(Operand::Literal(Literal::Int(step))) if *step != 0 && *step != i64::MIN => *step,
            Some(_) => {
                return Err(self.error(
                    place,
                    "the step of a range is a constant other than 0",
                    "",
                ));
            }
        };
        let (start, stop) = match &bounds[..] {
            [] => {
                return Err(self.error(place, "range takes an integer", "range(10), range(1, 10)"));
            }
            [stop] => (Operand::int(0), stop.clone()),
            [start, stop, ..] => (start.clone(), stop.clone()),
        };
        let (low, high) = if step > 0 {
            (&start, &stop)
        } else {
            (&stop, &start)
        };
        let mut count = match low {
            Operand::Literal(Literal::Int(0)) => high.clone(),
            low => self.integer_arithmetic(Arithmetic::Subtract, high, low)?,
        };
        if step.abs() > 1 {
            count =
                self.integer_arithmetic(Arithmetic::Add, &count, &Operand::int(step.abs() - 1))?;
            count = self.integer_arithmetic(
                Arithmetic::FloorDivide,
                &count,
                &Operand::int(step.abs()),
            )?;
        }
        Ok(Operand::Range {
            start: Box::new(start),
            step,
            count: Box::new(count),
        })
    }

    fn cycle(
        &mut self,
        base: &Operand,
        arguments: &[ast::CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let Operand::Loop(registers) = base else {
            return Err(self.error(
                place,
                "`cycle` is for loops",
                "loop.cycle(\"odd\", \"even\")",
            ));
        };
        let mut literals = Vec::new();
        for argument in arguments {
            let ast::CallArg::Pos(expression) = argument else {
                return Err(self.unsupported(place, "such an argument of `cycle`", ""));
            };
            match self.expression(expression)? {
                Operand::Literal(literal) => literals.push(literal),
                _ => {
                    return Err(self.error(place, "the arguments of `cycle` must be constant", ""));
                }
            }
        }
        let safe = literals
            .iter()
            .any(|l| matches!(l, Literal::Text { safe: true, .. }));
        if literals.is_empty() || safe || literals.iter().any(|l| l.kind() != literals[0].kind()) {
            return Err(self.error(place, "the arguments of `cycle` must be of one type", ""));
        }
        let length = Operand::int(literals.len() as i64);
        let index = Operand::register(registers.index, Type::Int);
        let position = self.integer_arithmetic(Arithmetic::Remainder, &index, &length)?;
        let position = self.register(&position);
        let list = List {
            columns: vec![(String::new(), literals[0].kind())],
            items: Items::Tables {
                tables: vec![self.table(&literals)],
                length: literals.len(),
            },
            status: None,
        };
        Ok(Operand::Column {
            list: Rc::new(list),
            column: 0,
            position,
        })
    }

    /// Adds a table of constants, or finds it.
    fn table(&mut self, literals: &[Literal]) -> u16 {
        let table: Vec<Constant> = literals
            .iter()
            .map(|literal| self.page.constant(literal))
            .collect();
        let known = self.page.tables.iter().position(|known| *known == table);
        let index = known.unwrap_or_else(|| {
            self.page.tables.push(table);
            self.page.tables.len() - 1
        });
        // Tables are bounded by the number of nodes compiled, which is checked; past the bound the page is refused.
        index.min(usize::from(u16::MAX)) as u16
    }

    /// A list of constants: of values, of tuples or of maps.
    fn constant_list(&mut self, items: &[Expr<'_>], place: Place<'a>) -> Result<Operand> {
        let mut columns: Vec<(String, Vec<Literal>)> = Vec::new();
        for (row, item) in items.iter().enumerate() {
            let mut cells: Vec<(String, &Expr<'_>)> = match item {
                Expr::Tuple(tuple) => tuple
                    .items
                    .iter()
                    .enumerate()
                    .map(|(i, e)| (i.to_string(), e))
                    .collect(),
                Expr::List(list) => list
                    .items
                    .iter()
                    .enumerate()
                    .map(|(i, e)| (i.to_string(), e))
                    .collect(),
                Expr::Map(map) => {
                    let mut cells = Vec::new();
                    for (key, value) in map.keys.iter().zip(&map.values) {
                        match self.expression(key)? {
                            Operand::Literal(Literal::Text { text, .. }) => {
                                cells.push((text.to_string(), value))
                            }
                            _ => {
                                return Err(self.error(
                                    place,
                                    "the keys of a map must be constant texts",
                                    "",
                                ));
                            }
                        }
                    }
                    cells
                }
                item => vec![(String::new(), item)],
            };
            cells.sort_by(|a, b| a.0.len().cmp(&b.0.len()).then_with(|| a.0.cmp(&b.0)));
            if row == 0 {
                columns = cells
                    .iter()
                    .map(|(name, _)| (name.clone(), Vec::new()))
                    .collect();
            }
            let names = |(a, b): (&(String, Vec<Literal>), &(String, &Expr<'_>))| a.0 == b.0;
            if columns.len() != cells.len() || !columns.iter().zip(&cells).all(names) {
                let item = self.place_of(item);
                return Err(self.error(item, "the items of a list must be alike", ""));
            }
            for ((_, literals), (_, expression)) in columns.iter_mut().zip(cells) {
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
                if literals
                    .first()
                    .is_some_and(|first| first.kind() != literal.kind())
                {
                    return Err(self.error(place, "the items of a list must be of one type", ""));
                }
                literals.push(literal);
            }
        }
        if columns.is_empty() {
            return Ok(Operand::Range {
                start: Box::new(Operand::int(0)),
                step: 1,
                count: Box::new(Operand::int(0)),
            });
        }
        let tables = columns
            .iter()
            .map(|(_, literals)| self.table(literals))
            .collect();
        let columns = (columns.into_iter())
            .map(|(name, literals)| (name, literals[0].kind()))
            .collect();
        Ok(Operand::List(Rc::new(List {
            items: Items::Tables {
                tables,
                length: items.len(),
            },
            columns,
            status: None,
        })))
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

fn holds(comparison: Comparison, ordering: Ordering) -> bool {
    match comparison {
        Comparison::Equal => ordering.is_eq(),
        Comparison::NotEqual => ordering.is_ne(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    }
}
