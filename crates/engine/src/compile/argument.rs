//! Arguments of what calls ask: values that a backend is given, and templates whose outputs they
//! are.

use super::compiler::{Compiler, Result};
use super::value::Operand;
use crate::diagnostic::{Place, Reported};
use crate::program::Form;
use crate::source::keys::Text;
use crate::source::template::{TextPlace, parse_template};
use minijinja::machinery::ast::{Expr, Stmt};
use rhythm_protocol::http::uri;

/// Literal pieces, and between them the arguments: of each the parts whose texts, one after the
/// other, it is.
pub(super) type Parts = (Vec<String>, Vec<Vec<Operand>>);

/// Pieces as a form has them.
pub(super) fn bytes_of(pieces: Vec<String>) -> Vec<Box<[u8]>> {
    let bytes = |piece: String| piece.into_bytes().into();
    pieces.into_iter().map(bytes).collect()
}

/// A value that can be an argument.
pub(super) fn scalar<'a>(
    compiler: &mut Compiler<'_, 'a>,
    operand: Operand,
    place: Place<'a>,
) -> Result<Operand> {
    match operand {
        Operand::Poison => Err(Reported),
        operand if operand.is_safe() => {
            let message = "a text that is escaped already does not belong here";
            let hint = "values are escaped for where they are put: leave `|safe` and others away";
            Err(compiler.error(place, message, hint))
        }
        operand if operand.scalar().is_some() => Ok(operand),
        operand @ (Operand::List(_) | Operand::Row { .. } | Operand::Record(_)) => {
            let message = format!("{} is no argument", operand.describe());
            let hint =
                "`|tojson` makes one text of it, and `each` asks once for each item of a list";
            Err(compiler.error(place, message, hint))
        }
        operand => Err(compiler.not_printable(&operand, place)),
    }
}

/// The value of an expression that is to be an argument: JSON is a text like any other there, for
/// a backend that takes it apart.
pub(super) fn plain(expression: &Expr<'_>, operand: Operand) -> Operand {
    match expression {
        Expr::Filter(node) if node.name == "tojson" => operand.not_safe(),
        _ => operand,
    }
}

/// Compiles a template whose outputs are arguments, to follow on others; `write` appends what
/// stands between them to a piece. Outputs that nothing keeps apart are one argument.
pub(super) fn template<'a>(
    compiler: &mut Compiler<'_, 'a>,
    text: &Text<'a>,
    (pieces, arguments): &mut Parts,
    write: fn(&str, &mut String),
) -> Result<()> {
    let origin = TextPlace::of_text(text);
    let body = parse_template(&text.value, origin, compiler.report)?;
    let Stmt::Template(body) = &body else {
        return Err(Reported);
    };
    let around = std::mem::replace(&mut compiler.origin, origin);
    let mut result = Ok(());
    for statement in &body.children {
        match statement {
            Stmt::EmitRaw(raw) => {
                if let Some(piece) = pieces.last_mut() {
                    write(raw.raw, piece);
                }
            }
            Stmt::EmitExpr(output) => match argument(compiler, &output.expr) {
                Err(reported) => result = Err(reported),
                Ok(operand) => {
                    let between = pieces.last().map_or("", |piece| piece);
                    match arguments.last_mut() {
                        Some(parts) if !Form::separates(between.as_bytes()) => {
                            let Some(between) = decoded(between) else {
                                let place = compiler.place_of(&output.expr);
                                let hint = "a `&` between them makes them two arguments";
                                let message = "what stands before this output is no text";
                                result = Err(compiler.error(place, message, hint));
                                continue;
                            };
                            if !between.is_empty() {
                                parts.push(Operand::text(&between));
                            }
                            parts.push(operand);
                            if let Some(piece) = pieces.last_mut() {
                                piece.clear();
                            }
                        }
                        _ => {
                            arguments.push(vec![operand]);
                            pieces.push(String::new());
                        }
                    }
                }
            },
            _ => {
                let hint = "text and {{ outputs }}; choose with {{ a if condition else b }}";
                let place = compiler.origin.place(0);
                result = Err(compiler.error(place, "statements do not belong here", hint));
            }
        }
    }
    compiler.origin = around;
    result
}

/// An output that is an argument.
fn argument<'a>(compiler: &mut Compiler<'_, 'a>, expression: &Expr<'_>) -> Result<Operand> {
    let place = compiler.place_of(expression);
    let operand = compiler.expression(expression)?;
    match operand {
        Operand::None => Ok(Operand::text("None")),
        Operand::Undefined => Ok(Operand::text("")),
        operand => scalar(compiler, plain(expression, operand), place),
    }
}

/// The text that a percent-encoded piece stands for.
fn decoded(piece: &str) -> Option<String> {
    let mut bytes = Vec::new();
    uri::decode(piece.as_bytes(), &mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}
