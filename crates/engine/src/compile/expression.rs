//! Expressions: to operands, with every type known.

use super::build::OpenBlock;
use super::compiler::{Compiler, Result};
use super::value::{Literal, Operand};
use crate::diagnostic::{Place, Reported, did_you_mean};
use crate::program::{Comparison, Csrf, Op, Register, Type, Unary};
use minijinja::machinery::ast::{self, BinOpKind, Expr};
use minijinja::value::ValueKind;
use std::collections::BTreeMap;

impl<'a> Compiler<'_, 'a> {
    /// Where an expression begins.
    pub(super) fn place_of(&self, expression: &Expr<'_>) -> Place<'a> {
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
    pub(super) fn expression(&mut self, expression: &Expr<'_>) -> Result<Operand> {
        let place = self.place_of(expression);
        let operand = self.nested(place, |this| this.expression_inside(expression, place))?;
        self.usable(operand, expression)
    }

    /// Reports operands that have no value.
    pub(super) fn usable(&mut self, operand: Operand, expression: &Expr<'_>) -> Result<Operand> {
        let place = self.place_of(expression);
        let name = match expression {
            Expr::Var(name) => name.id,
            _ => "this",
        };
        match operand {
            Operand::Poison => Err(Reported),
            Operand::CsrfToken => self.csrf_token(place),
            Operand::Flash => Ok(Operand::Field {
                field: self.page.flash(),
                kind: Type::Text,
            }),
            Operand::Here => Ok(Operand::Field {
                field: self.page.here(),
                kind: Type::Text,
            }),
            Operand::Maybe(statement) => {
                let hint = match statement {
                    // What its turns set lasts for a turn.
                    "for" => format!("set `{name}` before the `for`"),
                    _ => format!("set `{name}` before the `if`, or in its `else` too"),
                };
                Err(self.error(
                    place,
                    format!("`{name}` is not set on every path that leads here"),
                    hint,
                ))
            }
            Operand::Conflict(reason) => Err(self.error(
                place,
                format!("`{name}` has no single type here: {reason}"),
                "set it to one type on all paths: `|string`, `|int` or `|float` changes it",
            )),
            operand => Ok(operand),
        }
    }

    /// The visitor's CSRF token: of the session with which the request came.
    pub(super) fn csrf_token(&mut self, place: Place<'a>) -> Result<Operand> {
        self.forms.token();
        if self.forms.session_changes {
            let hint = "redirect to a page that shows it";
            let message = "a page that begins or ends a session has no token of the next one";
            return Err(self.error(place, message, hint));
        }
        Ok(Operand::Field {
            field: self.page.token(),
            kind: Type::Text,
        })
    }

    pub(super) fn expression_inside(
        &mut self,
        expression: &Expr<'_>,
        place: Place<'a>,
    ) -> Result<Operand> {
        match expression {
            Expr::Var(name) => match self.scope.ask(name.id) {
                Some(operand) => Ok(operand),
                None if self.scope.names_lost => Err(Reported),
                None => {
                    let visible = self.scope.visible();
                    let near = did_you_mean(name.id, visible.keys().map(String::as_str));
                    let part = owner(name.id, &visible).map_or(String::new(), |of| {
                        format!("did you mean `{of}.{}`?", name.id)
                    });
                    let is_near = near.starts_with("did you mean");
                    let hint = match name.id {
                        _ if is_near && self.report.is_of_shown() => {
                            format!("{near} Who shows this page gives names by `with`")
                        }
                        _ if is_near => near,
                        _ if !part.is_empty() => part,
                        "loop" => "`loop` is known inside of a `for`".to_owned(),
                        "session" if self.report.is_of_shown() => {
                            "it is that of the page in whose place this is shown, which has none: \
                             session = \"optional\" in its header, or, around this, {% if session \
                             is defined and session.present %}"
                                .to_owned()
                        }
                        Csrf::NAME | Csrf::INPUT | "flash" | "here" | "cookies" => format!(
                            "an error page is made before anybody visits it: around this, \
                             {{% if {} is defined %}}",
                            name.id
                        ),
                        given if self.report.is_of_shown() => {
                            format!("who shows this page gives it: with = {{ {given} = \"...\" }}")
                        }
                        "params" | "request" | "query" | "form" | "args" => {
                            "parameters go by their names alone, as in [params]".to_owned()
                        }
                        "errors" | "typed" => "errors = \"values\" at the top of the header has \
                                               the page told of wrong parameters"
                            .to_owned(),
                        "session" => "session = \"optional\" at the top of the header".to_owned(),
                        _ if near.is_empty() => {
                            "a page knows its [params], its session, and the rows of its calls"
                                .to_owned()
                        }
                        _ => near + "; parameters are declared in [params]",
                    };
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
            Expr::Test(node) => self.test(node, false),
            Expr::GetAttr(node) => {
                let base = self.expression(&node.expr)?;
                let place = self.origin.at(node.span());
                match self.attribute_at(&base, node.name, place)? {
                    Some(operand) => Ok(operand),
                    None => Err(self.no_attribute(&base, node.name, place)),
                }
            }
            Expr::GetItem(node) => self.get_item(node, place),
            Expr::Call(node) => self.call(node),
            Expr::List(node) => self.constant_list(&node.items, place),
            Expr::Tuple(node) => self.constant_list(&node.items, place),
            Expr::Map(node) => self.map(node, place),
            Expr::Slice(node) => self.slice(node, place),
        }
    }

    /// A name or a chain of names, [`Operand::Undefined`] where it has no value; else any
    /// expression.
    pub(super) fn optional(&mut self, expression: &Expr<'_>) -> Result<Operand> {
        let operand = match expression {
            Expr::Var(name) => self.scope.ask(name.id).unwrap_or(Operand::Undefined),
            Expr::GetAttr(node) => match self.optional(&node.expr)? {
                Operand::Undefined => Operand::Undefined,
                base => {
                    let place = self.origin.at(node.span());
                    let found = self.attribute_at(&base, node.name, place)?;
                    found.unwrap_or(Operand::Undefined)
                }
            },
            _ => return self.expression(expression),
        };
        self.usable(operand, expression)
    }

    pub(super) fn literal(
        &mut self,
        value: &minijinja::Value,
        place: Place<'a>,
    ) -> Result<Operand> {
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
    pub(super) fn condition(&mut self, expression: &Expr<'_>) -> Result<Operand> {
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
            Expr::Test(node) => {
                let operand = self.nested(place, |this| this.test(node, true))?;
                self.truth(operand, place)
            }
            _ => {
                let operand = self.expression(expression)?;
                self.truth(operand, place)
            }
        }
    }

    pub(super) fn truth(&mut self, operand: Operand, place: Place<'a>) -> Result<Operand> {
        Ok(match operand {
            Operand::Literal(literal) => Operand::bool(literal.truth()),
            Operand::Undefined | Operand::None => Operand::bool(false),
            Operand::Row { .. }
            | Operand::Record(_)
            | Operand::Map(_)
            | Operand::Group { .. }
            | Operand::Namespace(_) => Operand::bool(true),
            Operand::Perhaps { there, of } => {
                let there = Operand::register(there, Type::Bool);
                return self.logical(true, there, |this| this.truth(*of, place));
            }
            Operand::Errors { wrong, .. } => {
                let kind = Type::Int;
                let wrong = Operand::Field { field: wrong, kind };
                self.compare(Comparison::NotEqual, &wrong, &Operand::int(0), place)?
            }
            Operand::List(list) => {
                let length = self.length_of(&list)?;
                self.compare(Comparison::NotEqual, &length, &Operand::int(0), place)?
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
                        ref operand => operand.parts(),
                    };
                    let message = format!("{} is no condition", operand.describe());
                    return Err(self.error(place, message, hint));
                }
            },
        })
    }

    pub(super) fn negation(&mut self, operand: Operand) -> Operand {
        match operand {
            Operand::Literal(literal) => Operand::bool(!literal.truth()),
            operand => {
                let from = self.register(&operand);
                Operand::register(
                    self.stage
                        .other(Type::Bool, |to| Op::Not(Unary { to, from })),
                    Type::Bool,
                )
            }
        }
    }

    /// The register of an operand that is known to be scalar.
    pub(super) fn register(&mut self, operand: &Operand) -> Register {
        self.stage
            .register(operand, self.page)
            .expect("only scalar operands are put into registers")
    }

    /// `left and right`, `left or right`, of conditions; the right one is computed where it counts
    /// only.
    pub(super) fn logical(
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
    pub(super) fn in_block(&mut self, expression: &Expr<'_>) -> (OpenBlock, Result<Operand>) {
        self.stage.open();
        let operand = self.expression(expression);
        (self.stage.close(self.fragments), operand)
    }

    pub(super) fn if_expression(
        &mut self,
        node: &ast::IfExpr<'_>,
        place: Place<'a>,
    ) -> Result<Operand> {
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
            .map_err(|reason| {
                let hint = "`|string`, `|int` or `|float` changes a type";
                self.error(place, format!("this has no single type: {reason}"), hint)
            })
    }

    /// An operand that has a text.
    pub(super) fn printable(&mut self, operand: Operand, place: Place<'a>) -> Result<Operand> {
        match operand {
            Operand::None => Ok(Operand::text("None")),
            Operand::Undefined => Ok(Operand::text("")),
            operand if operand.scalar().is_some() => Ok(operand),
            // Where it is not there it is empty.
            Operand::Perhaps { of, .. }
                if of.scalar().is_some_and(|(kind, _)| kind == Type::Text) =>
            {
                Ok(*of)
            }
            operand => {
                let message = format!("{} has no text", operand.describe());
                Err(self.error(place, message, operand.parts()))
            }
        }
    }

    pub(super) fn text_register(&mut self, operand: &Operand) -> Register {
        self.stage
            .text_register(operand, self.page)
            .expect("only scalar operands are put into registers")
    }
}

/// The name of a record that has a value of this name.
fn owner<'n>(name: &str, visible: &'n BTreeMap<String, Operand>) -> Option<&'n str> {
    let has = |operand: &Operand| match operand {
        Operand::Row { list, .. } => list.columns.iter().any(|(column, _)| column == name),
        Operand::Record(names) | Operand::Errors { of: names, .. } => names.contains_key(name),
        _ => false,
    };
    let mut owners = visible.iter().filter(|(_, operand)| has(operand));
    owners.next().map(|(owner, _)| owner.as_str())
}
