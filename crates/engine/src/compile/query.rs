//! What calls ask: the outputs of a template, of a command's words or of a request of HTTP, or the
//! named arguments of a statement of SQL, are the arguments of its queries.

use super::argument::{Parts, bytes_of, template};
use super::compiler::{Compiler, Result};
use super::http_call::request;
use super::sql_call::{Used, statement, transaction};
use super::step::{only_when, with_expression};
use super::value::{List, Operand};
use crate::diagnostic::{Place, Report, Reported};
use crate::program::{Asking, Form, Op, Query, Register, Statement};
use crate::settings::BackendConfig;
use crate::source::declaration::{CallDecl, EachDecl};
use crate::source::keys::Text;
use std::rc::Rc;

/// The most that `request_bytes_max` may be.
const REQUEST_BYTES_MAX: u64 = 16 << 20;

/// Compiles what a call asks, of the lanes where `when` is true, and gives what it looks like.
pub(super) fn query<'a>(
    compiler: &mut Compiler<'_, 'a>,
    declaration: &CallDecl<'a>,
    when: Option<&Text<'a>>,
) -> Result<Asked> {
    if let Some(when) = when {
        return only_when(compiler, when, |compiler| {
            query(compiler, declaration, None)
        });
    }
    let Some(EachDecl { item, list }) = &declaration.each else {
        return ask(compiler, declaration);
    };
    let Ok(list) = items_of(compiler, list) else {
        // What else is wrong with the request is told even so.
        let _ = ask_with(compiler, declaration, item, Operand::Poison);
        return Err(Reported);
    };
    compiler.through(&list, |compiler, position, _| {
        let operand = compiler.item(&Operand::List(Rc::clone(&list)), position)?;
        ask_with(compiler, declaration, item, operand)
    })?
}

/// What a call has a request for each item of.
fn items_of<'a>(compiler: &mut Compiler<'_, 'a>, list: &Text<'a>) -> Result<Rc<List>> {
    let items = with_expression(compiler, list, |this, expression| {
        this.expression(expression)
    })?;
    match items {
        Operand::List(items) => Ok(items),
        other => {
            let message = format!("`each` cannot go through {}", other.describe());
            let hint = "a list parameter, the rows of a call before, or range(...)";
            Err(compiler.error(list.place, message, hint))
        }
    }
}

/// Asks for an item of this name, which is again what it was before when that is done.
fn ask_with<'a>(
    compiler: &mut Compiler<'_, 'a>,
    declaration: &CallDecl<'a>,
    item: &str,
    operand: Operand,
) -> Result<Asked> {
    let shadowed = compiler.scope.page.insert(item.to_owned(), operand);
    let asked = ask(compiler, declaration);
    match shadowed {
        Some(shadowed) => compiler.scope.page.insert(item.to_owned(), shadowed),
        None => compiler.scope.page.remove(item),
    };
    asked
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

/// What a page's call asks, compiled.
pub(super) struct Asked {
    pub(super) form: Form,
    /// Of a transaction.
    pub(super) statements: Box<[Statement]>,
    /// What of files goes into it, each as often as it does: what it is called, and its most bytes.
    pub(super) files: Vec<(String, u64)>,
}

impl Asked {
    /// Warns of files that may be larger than what a request to its backend may have.
    pub(super) fn warn_of_large_files(
        &self,
        backend: &BackendConfig,
        place: Place<'_>,
        report: &mut Report,
    ) {
        let most = u64::from(backend.pool.request_bytes_max);
        let bytes: u64 = self.files.iter().map(|(_, bytes)| bytes).sum();
        if bytes <= most {
            return;
        }
        let mut names: Vec<String> = Vec::new();
        for (name, _) in &self.files {
            let name = format!("`{name}`");
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let name = &backend.name;
        let message = format!(
            "{} may have {bytes} bytes, and a request to the backend `{name}` has {most} at most: \
             more answers 500",
            names.join(" and ")
        );
        // What else is asked.
        let enough = bytes.saturating_add(16_384);
        let hint = match enough <= REQUEST_BYTES_MAX {
            true => format!(
                "in service.toml: [backend.{name}], and below it request_bytes_max = {enough}; or \
                 a smaller max_bytes"
            ),
            false => format!("a smaller max_bytes: no request has more than {REQUEST_BYTES_MAX}"),
        };
        report.warning(place, message, hint);
    }
}

/// Compiles what is asked, and asks.
fn ask<'a>(compiler: &mut Compiler<'_, 'a>, declaration: &CallDecl<'a>) -> Result<Asked> {
    let ((pieces, arguments), statements) = match declaration.asking {
        _ if !declaration.words.is_empty() => (command(compiler, &declaration.words)?, Vec::new()),
        _ if let Some(http) = &declaration.http => {
            (request(compiler, &declaration.asked, http)?, Vec::new())
        }
        Asking::Request => {
            let mut parts = (vec![String::new()], Vec::new());
            let as_it_is = |raw: &str, piece: &mut String| piece.push_str(raw);
            template(compiler, &declaration.asked, &mut parts, as_it_is)?;
            (parts, Vec::new())
        }
        Asking::Query | Asking::Exec => {
            let mut used = Used::default();
            let statement = statement(compiler, declaration, &declaration.asked, &[], &mut used);
            used.refuse_others(compiler, declaration)?;
            let (parts, _) = statement?;
            (parts, Vec::new())
        }
        Asking::Transaction => transaction(compiler, declaration)?,
    };
    let fields = arguments
        .iter()
        .flatten()
        .filter_map(|operand| match operand {
            Operand::Field { field, .. } => compiler.page.files.get(field).cloned(),
            _ => None,
        });
    let files: Vec<(String, u64)> = fields.collect();
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
        pieces: bytes_of(pieces),
        arguments: registers.iter().map(kind).collect(),
    };
    let statements = (statements.into_iter())
        .map(|statement| statement.finish(&form.arguments))
        .collect();
    let arguments = registers;
    compiler.stage.push(Op::Query(Query { arguments }));
    Ok(Asked {
        form,
        statements,
        files,
    })
}
