//! What calls ask: the outputs of a template or of a command's words, or the named arguments of a
//! statement of SQL, are the arguments of its queries.

use super::compiler::{Compiler, Result};
use super::sql;
use super::step::{only_when, with_expression};
use super::value::{List, Operand};
use crate::diagnostic::{Place, Reported, did_you_mean_or};
use crate::program::{Form, Op, Query, Register};
use crate::source::declaration::{Asked, CallDecl};
use crate::source::keys::Text;
use crate::source::template::{TextPlace, parse_template};
use minijinja::machinery::ast::Stmt;
use rhythm_protocol::http::uri;
use std::rc::Rc;

/// Compiles what a call asks, of the lanes where `when` is true, and gives its form.
pub(super) fn query<'a>(
    compiler: &mut Compiler<'_, 'a>,
    declaration: &CallDecl<'a>,
    when: Option<&Text<'a>>,
) -> Result<Form> {
    if let Some(when) = when {
        return only_when(compiler, when, |compiler| {
            query(compiler, declaration, None)
        });
    }
    let Some((each, item, list_name)) = &declaration.each else {
        return ask(compiler, declaration);
    };
    let list = each_of(compiler, each, list_name);
    let Ok(list) = list else {
        // What else is wrong with the request is told even so.
        let shadowed = compiler.scope.page.insert(item.clone(), Operand::Poison);
        let _ = ask(compiler, declaration);
        unshadow(compiler, item, shadowed);
        return Err(Reported);
    };
    let count = compiler.length_of(&list);
    let count = compiler.register(&count);
    compiler.repeat(count, |compiler, position, _| {
        let operand = compiler.item(&Operand::List(list), position)?;
        let shadowed = compiler.scope.page.insert(item.clone(), operand);
        let form = ask(compiler, declaration);
        unshadow(compiler, item, shadowed);
        form
    })
}

/// The list that a call has a request for each item of.
fn each_of<'a>(
    compiler: &mut Compiler<'_, 'a>,
    each: &Text<'a>,
    list_name: &str,
) -> Result<Rc<List>> {
    match compiler.scope.page.get(list_name) {
        Some(Operand::List(list)) => Ok(list.clone()),
        Some(Operand::Poison) => Err(Reported),
        Some(other) => {
            let message = format!("`{list_name}` is {}, not a list", other.describe());
            let hint = "a list parameter, or the rows of a call before";
            Err(compiler.error(each.place, message, hint))
        }
        None if compiler.scope.names_lost => Err(Reported),
        None => {
            let lists = (compiler.scope.page.iter())
                .filter(|(_, operand)| matches!(operand, Operand::List(_)))
                .map(|(name, _)| name.as_str());
            let nothing = "a list parameter (list = 16), or the rows of a call before";
            let hint = did_you_mean_or(list_name, lists, nothing);
            Err(compiler.error(each.place, format!("unknown name `{list_name}`"), hint))
        }
    }
}

/// Ends the life of a call's item: its name is again what it was before.
fn unshadow(compiler: &mut Compiler<'_, '_>, item: &str, shadowed: Option<Operand>) {
    match shadowed {
        Some(shadowed) => compiler.scope.page.insert(item.to_owned(), shadowed),
        None => compiler.scope.page.remove(item),
    };
}

/// Literal pieces, and between them the arguments: of each the parts whose texts, one after the
/// other, it is.
type Parts = (Vec<String>, Vec<Vec<Operand>>);

/// Compiles a template whose outputs are arguments, to follow on others; `write` appends what
/// stands between them to a piece. Outputs that nothing keeps apart are one argument.
fn template<'a>(
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

/// Compiles the words of a command, templates.
fn command<'a>(compiler: &mut Compiler<'_, 'a>, words: &[Text<'a>]) -> Result<Parts> {
    let mut parts = (vec![String::new()], Vec::new());
    let mut result = Ok(());
    for (number, word) in words.iter().enumerate() {
        if number > 0
            && let Some(piece) = parts.0.last_mut()
        {
            piece.push(Form::WORD_END);
        }
        result = result.and(template(compiler, word, &mut parts, Form::write_word));
    }
    result.map(|()| parts)
}

/// Compiles a statement of SQL: its named arguments are expressions of `args`, or, if those have
/// no such name, what the page knows by the name.
fn statement<'a>(
    compiler: &mut Compiler<'_, 'a>,
    text: &Text<'a>,
    args: &[(Text<'a>, Text<'a>)],
) -> Result<Parts> {
    let origin = TextPlace::of_text(text);
    let around = std::mem::replace(&mut compiler.origin, origin);
    let statement = sql::read(&text.value).map_err(|mistake| {
        let place = compiler.origin.place(mistake.at);
        compiler.error(place, mistake.message, mistake.hint)
    });
    let place_of = |compiler: &Compiler<'_, 'a>, at| compiler.origin.place(at);
    let mut parts = (Vec::new(), Vec::new());
    let mut result = statement.as_ref().map(|_| ()).map_err(|_| Reported);
    for (piece, name) in statement.iter().flat_map(|statement| &statement.arguments) {
        let given = args.iter().find(|(known, _)| known.value == name.name);
        let own = Text {
            value: name.name.to_owned(),
            place: place_of(compiler, name.at + 1),
            exact: text.exact,
        };
        let expression = given.map_or(&own, |(_, expression)| expression);
        let operand = with_expression(compiler, expression, |compiler, expression| {
            let place = compiler.place_of(expression);
            match compiler.expression(expression)? {
                Operand::None => {
                    let hint = "write `null` in the statement";
                    Err(compiler.error(place, "none is no value of an argument", hint))
                }
                operand => scalar(compiler, operand, place),
            }
        });
        match operand {
            Ok(operand) => parts.1.push(vec![operand]),
            Err(reported) => result = Err(reported),
        }
        parts.0.push((*piece).to_owned());
    }
    if let Ok(statement) = &statement {
        parts.0.push(statement.rest.to_owned());
        let is_used = |name: &str| {
            statement
                .arguments
                .iter()
                .any(|(_, used)| used.name == name)
        };
        for (name, _) in args.iter().filter(|(name, _)| !is_used(&name.value)) {
            let message = format!("the statement has no :{}", name.value);
            let hint = did_you_mean_or(
                &name.value,
                statement.arguments.iter().map(|(_, used)| used.name),
                "remove it, or write it where its value goes",
            );
            result = Err(compiler.error(name.place, message, hint));
        }
    }
    compiler.origin = around;
    result.map(|()| parts)
}

/// Compiles what is asked, and asks.
fn ask<'a>(compiler: &mut Compiler<'_, 'a>, declaration: &CallDecl<'a>) -> Result<Form> {
    let (pieces, arguments) = match &declaration.asked {
        Asked::Template(text) => {
            let mut parts = (vec![String::new()], Vec::new());
            template(compiler, text, &mut parts, |raw, piece| piece.push_str(raw))?;
            parts
        }
        Asked::Statement(text, args) => statement(compiler, text, args)?,
        Asked::Words(words) => command(compiler, words)?,
    };
    let registers: Vec<Register> = arguments
        .into_iter()
        .map(|parts| match &parts[..] {
            [one] => compiler.register(one),
            parts => {
                let text = compiler.stage.concat(parts, false, compiler.page);
                compiler.text_register(&text)
            }
        })
        .collect();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        compiler.page.texts.intern(piece);
    }
    let kind = |register: &Register| compiler.stage.kind_of(*register);
    let form = Form {
        pieces: pieces
            .into_iter()
            .map(|piece| piece.into_bytes().into())
            .collect(),
        arguments: registers.iter().map(kind).collect(),
    };
    let arguments = registers;
    compiler.stage.push(Op::Query(Query { arguments }));
    Ok(form)
}

/// An output that is an argument.
fn argument<'a>(
    compiler: &mut Compiler<'_, 'a>,
    expression: &minijinja::machinery::ast::Expr<'_>,
) -> Result<Operand> {
    let place = compiler.place_of(expression);
    let operand = compiler.expression(expression)?;
    match operand {
        Operand::None => Ok(Operand::text("None")),
        Operand::Undefined => Ok(Operand::text("")),
        operand => scalar(compiler, operand, place),
    }
}

/// A value that can be an argument.
fn scalar<'a>(
    compiler: &mut Compiler<'_, 'a>,
    operand: Operand,
    place: Place<'a>,
) -> Result<Operand> {
    match operand {
        Operand::Poison => Err(Reported),
        operand if operand.is_safe() => {
            let hint = "values are escaped for where they are put";
            Err(compiler.error(place, "`|safe` does not belong here", hint))
        }
        operand if operand.scalar().is_some() => Ok(operand),
        operand => Err(compiler.not_printable(&operand, place)),
    }
}

/// The text that a percent-encoded piece stands for.
fn decoded(piece: &str) -> Option<String> {
    let mut bytes = Vec::new();
    uri::decode(piece.as_bytes(), &mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}
