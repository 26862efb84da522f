//! Statements of SQL that a page's call asks: their named arguments are expressions of `args`, or
//! what the page knows by the name; or in a transaction what a statement before has answered.

use super::argument::{Parts, bytes_of, plain, scalar};
use super::build::index_of;
use super::compiler::{Compiler, Result};
use super::sql;
use super::step::with_expression;
use super::value::Operand;
use crate::diagnostic::{Reported, did_you_mean, did_you_mean_or};
use crate::program::{Asking, Form, Source, Statement, Type};
use crate::source::declaration::{CallDecl, NamedRow};
use crate::source::keys::Text;
use crate::source::template::TextPlace;

/// The names of arguments that statements have used.
#[derive(Debug, Default)]
pub(super) struct Used(Vec<String>);

impl Used {
    /// All that `args` names may be meant by what is reported.
    fn all_of(&mut self, declaration: &CallDecl<'_>) {
        (self.0).extend(declaration.args.iter().map(|(name, _)| name.value.clone()));
    }

    /// Reports what `args` names and no statement uses.
    pub(super) fn refuse_others<'a>(
        &self,
        compiler: &mut Compiler<'_, 'a>,
        declaration: &CallDecl<'a>,
    ) -> Result<()> {
        let mut result = Ok(());
        for (name, _) in &declaration.args {
            if self.0.contains(&name.value) {
                continue;
            }
            let what = match declaration.transaction.is_empty() {
                true => "the statement has",
                false => "its statements have",
            };
            let message = format!("{what} no :{}", name.value);
            let hint = did_you_mean_or(
                &name.value,
                self.0.iter().map(String::as_str),
                "remove it, or write it where its value goes",
            );
            result = Err(compiler.error(name.place, message, hint));
        }
        result
    }
}

/// Where an argument comes from, and in a transaction its type if that is known.
type Given = (Source, Option<Type>);

/// Compiles a statement. Of `rows`, what statements before it have answered, its arguments may be
/// columns, too.
pub(super) fn statement<'a>(
    compiler: &mut Compiler<'_, 'a>,
    declaration: &CallDecl<'a>,
    text: &Text<'a>,
    rows: &[&NamedRow<'a>],
    used: &mut Used,
) -> Result<(Parts, Vec<Given>)> {
    let origin = TextPlace::of_text(text);
    let around = std::mem::replace(&mut compiler.origin, origin);
    let compiled = statement_here(compiler, declaration, text, rows, used);
    compiler.origin = around;
    compiled
}

fn statement_here<'a>(
    compiler: &mut Compiler<'_, 'a>,
    declaration: &CallDecl<'a>,
    text: &Text<'a>,
    rows: &[&NamedRow<'a>],
    used: &mut Used,
) -> Result<(Parts, Vec<Given>)> {
    let read = sql::read(&text.value).map_err(|mistake| {
        let place = compiler.origin.place(mistake.at);
        // Its arguments are not known: none of `args` is one too many.
        used.all_of(declaration);
        compiler.error(place, mistake.message, mistake.hint)
    })?;
    for quoted in &read.quoted {
        let is_given = declaration
            .args
            .iter()
            .any(|(name, _)| name.value == quoted.name);
        if is_given || compiler.scope.page.contains_key(quoted.name) {
            let name = quoted.name;
            let place = compiler.origin.place(quoted.at);
            let message = format!("`:{name}` in a string stands for itself");
            let hint = format!("put it together: '...' || :{name} || '...'");
            compiler.report.warning(place, message, hint);
            // It is meant to be used.
            used.0.push(name.to_owned());
        }
    }
    let (mut parts, mut sources) = (Parts::default(), Vec::new());
    let mut result = Ok(());
    for (piece, name) in &read.arguments {
        used.0.push(name.name.to_owned());
        parts.0.push((*piece).to_owned());
        let given = (declaration.args.iter()).find(|(known, _)| known.value == name.name);
        let own = Text {
            value: name.name.to_owned(),
            place: compiler.origin.place(name.at + 1),
            exact: text.exact,
        };
        let expression = given.map_or(&own, |(_, expression)| expression);
        match cell_of(compiler, expression, rows) {
            Ok(Some((cell, kind))) => {
                sources.push((Source::Cell(cell), Some(kind)));
                continue;
            }
            Ok(None) => {}
            Err(reported) => {
                result = Err(reported);
                continue;
            }
        }
        if given.is_none()
            && let Some(reported) = unknown(compiler, declaration, &own)
        {
            used.all_of(declaration);
            result = Err(reported);
            continue;
        }
        let operand = with_expression(compiler, expression, |compiler, expression| {
            let place = compiler.place_of(expression);
            match compiler.expression(expression)? {
                Operand::None => {
                    let hint = "write `null` in the statement";
                    Err(compiler.error(place, "none is no value of an argument", hint))
                }
                operand => scalar(compiler, plain(expression, operand), place),
            }
        });
        match operand {
            Ok(operand) => {
                sources.push((Source::Argument(parts.1.len()), None));
                parts.1.push(vec![operand]);
            }
            Err(reported) => result = Err(reported),
        }
    }
    parts.0.push(read.rest.to_owned());
    result.map(|()| (parts, sources))
}

/// Reports a name that neither `args` has nor the page, where there are `args`, one of which may be
/// meant.
fn unknown<'a>(
    compiler: &mut Compiler<'_, 'a>,
    declaration: &CallDecl<'a>,
    name: &Text<'a>,
) -> Option<Reported> {
    let scope = &compiler.scope;
    let is_known = scope.names_lost || scope.lookup(&name.value).is_some();
    if is_known || declaration.args.is_empty() {
        return None;
    }
    let visible = scope.visible();
    let given = declaration.args.iter().map(|(name, _)| &name.value);
    let near = did_you_mean(&name.value, given.chain(visible.keys()).map(String::as_str));
    let hint = match near.starts_with("did you mean") {
        true => near,
        false => near + "; `args` says what others are",
    };
    let message = format!("unknown name `{}`", name.value);
    Some(compiler.error(name.place, message, hint))
}

/// Which of the cells that statements before have answered an expression is, and of which type.
fn cell_of<'a>(
    compiler: &mut Compiler<'_, 'a>,
    expression: &Text<'a>,
    rows: &[&NamedRow<'a>],
) -> Result<Option<(usize, Type)>> {
    let is_of_name = |byte: char| byte.is_alphanumeric() || byte == '_';
    let unquoted = expression.value.split(['\'', '"']).step_by(2);
    let words = unquoted.flat_map(|part| part.split(|byte: char| !is_of_name(byte)));
    let mut first = 0;
    for (name, columns) in rows {
        let row = &name.value;
        let column = expression.value.trim().strip_prefix(row.as_str());
        if let Some(column) = column.and_then(|rest| rest.strip_prefix('.')) {
            if let Some(at) = columns.iter().position(|(known, _)| known == column) {
                return Ok(Some((first + at, columns[at].1)));
            }
            if column.chars().all(is_of_name) {
                let names = columns.iter().map(|(known, _)| known.as_str());
                let hint = did_you_mean_or(column, names, "it has no columns");
                let message = format!("`{row}` has no column `{column}`");
                return Err(compiler.error(expression.place, message, hint));
            }
        }
        if words.clone().any(|word| word == row) {
            let message = format!("`{row}` is answered within the transaction");
            let hint = format!("a column as it is, `{row}.{}`; the statement calculates", {
                columns.first().map_or("id", |(column, _)| column)
            });
            return Err(compiler.error(expression.place, message, hint));
        }
        first += columns.len();
    }
    Ok(None)
}

/// A statement of a transaction, but for the types of its arguments.
pub(super) struct Compiled {
    asking: Asking,
    pieces: Vec<String>,
    sources: Vec<Given>,
    columns: usize,
}

impl Compiled {
    /// With the types of the arguments of the whole transaction.
    pub(super) fn finish(self, kinds: &[Type]) -> Statement {
        let kind = |(source, kind): &Given| match (source, kind) {
            (Source::Argument(number), _) => kinds[*number],
            (Source::Cell(_), kind) => kind.unwrap_or(Type::Text),
        };
        Statement {
            asking: self.asking,
            form: Form {
                pieces: bytes_of(self.pieces),
                arguments: self.sources.iter().map(kind).collect(),
            },
            arguments: self.sources.iter().map(|(source, _)| *source).collect(),
            columns: index_of(self.columns),
        }
    }
}

/// Compiles the statements of a transaction: gives them one behind the other, and each by itself.
pub(super) fn transaction<'a>(
    compiler: &mut Compiler<'_, 'a>,
    declaration: &CallDecl<'a>,
) -> Result<(Parts, Vec<Compiled>)> {
    let (mut whole, mut statements): (Parts, _) = (Parts::default(), Vec::new());
    let (mut used, mut rows, mut result) = (Used::default(), Vec::new(), Ok(()));
    for declared in &declaration.transaction {
        match statement(compiler, declaration, &declared.text, &rows, &mut used) {
            Err(reported) => result = Err(reported),
            Ok(((pieces, arguments), mut sources)) => {
                let first = whole.1.len();
                for (source, _) in &mut sources {
                    if let Source::Argument(number) = source {
                        *number += first;
                    }
                }
                join(&mut whole.0, &pieces, &sources);
                whole.1.extend(arguments);
                let columns = declared
                    .row
                    .as_ref()
                    .map_or(0, |(_, columns)| columns.len());
                let asking = declared.asking;
                statements.push(Compiled {
                    asking,
                    pieces,
                    sources,
                    columns,
                });
            }
        }
        rows.extend(&declared.row);
    }
    used.refuse_others(compiler, declaration)?;
    result.map(|()| (whole, statements))
}

/// Puts a statement behind others: what stands between the arguments of the query.
fn join(whole: &mut Vec<String>, pieces: &[String], sources: &[Given]) {
    match whole.last_mut() {
        Some(last) => *last += "; ",
        None => whole.push(String::new()),
    }
    for (number, piece) in pieces.iter().enumerate() {
        let before = number.checked_sub(1).map(|number| sources[number].0);
        if let Some(Source::Argument(_)) = before {
            whole.push(String::new());
        }
        if let Some(last) = whole.last_mut() {
            if let Some(Source::Cell(cell)) = before {
                *last += &format!("cell {cell}");
            }
            *last += piece;
        }
    }
}
