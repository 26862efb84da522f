//! What calls ask over HTTP: a method, and a path, content and header fields out of whose templates
//! and expressions arguments are made. What stands between them is as it is to be sent.

use super::argument::{Parts, scalar, template};
use super::compiler::{Compiler, Result};
use super::output::escape_literal;
use super::step::{header_value, with_expression};
use super::value::Operand;
use crate::program::{Escape, Form};
use crate::source::declaration::{HttpDecl, JsonDecl};
use crate::source::keys::Text;
use rhythm_protocol::http::uri;
use rhythm_protocol::scan::ByteSet;

/// What may stand in a path and a query (RFC 3986, sections 3.3 and 3.4).
const TARGET: ByteSet = ByteSet::range(b'!', b'~').without(b"\"#<>[\\]^`{|}");

/// Compiles a request: its words are the method, the target, the content and header fields.
pub(super) fn request<'a>(
    compiler: &mut Compiler<'_, 'a>,
    path: &Text<'a>,
    http: &HttpDecl<'a>,
) -> Result<Parts> {
    let mut parts = (vec![http.method.to_owned()], Vec::new());
    write(&mut parts, |piece| piece.push(Form::WORD_END));
    let mut result = template(compiler, path, &mut parts, |raw, piece| {
        let mut encoded = Vec::new();
        uri::encode_but(TARGET, raw.as_bytes(), &mut encoded);
        piece.extend(encoded.into_iter().map(char::from));
    });
    write(&mut parts, |piece| piece.push(Form::WORD_END));
    if let Some(value) = &http.json {
        result = result.and(json(compiler, value, &mut parts));
    }
    for (name, value) in &http.headers {
        write(&mut parts, |piece| {
            piece.push(Form::WORD_END);
            piece.push_str(&name.value);
            piece.push(':');
        });
        match header_value(compiler, value) {
            Ok(value) => argument(&mut parts, value),
            Err(reported) => result = Err(reported),
        }
    }
    result.map(|()| parts)
}

/// Writes to the piece that is under way.
fn write(parts: &mut Parts, write: impl FnOnce(&mut String)) {
    if let Some(piece) = parts.0.last_mut() {
        write(piece);
    }
}

fn argument(parts: &mut Parts, operand: Operand) {
    parts.1.push(vec![operand]);
    parts.0.push(String::new());
}

/// Compiles a value that is sent.
fn json<'a>(
    compiler: &mut Compiler<'_, 'a>,
    value: &JsonDecl<'a>,
    parts: &mut Parts,
) -> Result<()> {
    let literal = |parts: &mut Parts, text: &str| write(parts, |piece| piece.push_str(text));
    let mut result = Ok(());
    match value {
        JsonDecl::Value(text) => {
            let value = with_expression(compiler, text, |compiler, expression| {
                let place = compiler.place_of(expression);
                match compiler.expression(expression)? {
                    Operand::None | Operand::Undefined => Ok(None),
                    operand => scalar(compiler, operand, place).map(Some),
                }
            });
            match value? {
                Some(operand) => argument(parts, operand),
                None => literal(parts, "null"),
            }
        }
        JsonDecl::Object(members) => {
            for (at, (name, value)) in members.iter().enumerate() {
                literal(parts, if at == 0 { "{\"" } else { ",\"" });
                // No blank stands in a word.
                let name = escape_literal(&name.value, Escape::Json).replace(' ', "\\u0020");
                literal(parts, &name);
                literal(parts, "\":");
                result = result.and(json(compiler, value, parts));
            }
            literal(parts, if members.is_empty() { "{}" } else { "}" });
        }
        JsonDecl::List(items) => {
            for (at, item) in items.iter().enumerate() {
                literal(parts, if at == 0 { "[" } else { "," });
                result = result.and(json(compiler, item, parts));
            }
            literal(parts, if items.is_empty() { "[]" } else { "]" });
        }
    }
    result
}
