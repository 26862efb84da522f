//! A transaction: statements of one request, of which all are done or none.
//!
//! They are carried out one after the other where one alone is (`writer.rs`), which undoes what
//! they have changed where the answer is none. What a statement has answered is kept, for the
//! arguments of those behind it and for the page.

use super::binding::{Bound, Wrong};
use super::frames::{self, Outcome, framed};
use super::query::OneOf;
use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::program::Source;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ToSql};

/// Carries the statements out, and appends the answer: one row of all cells that are looked at. The
/// error has the text of the statement that it is about.
pub(super) fn answer<'a>(
    connection: &Connection,
    mut statements: &'a [u8],
    arguments: impl Iterator<Item = Argument<'a>>,
    out: &mut Vec<u8>,
) -> Result<(), (&'a str, Wrong)> {
    let arguments: Vec<Argument<'a>> = arguments.collect();
    let mut cells: Vec<Value> = Vec::new();
    while let Some((frame, used)) = frames::first(statements) {
        statements = &statements[used..];
        let Some(statement) = OneOf::read(frame) else {
            return Err(("", Wrong::Rows("what is asked is no statement")));
        };
        carry_out(connection, &statement, &arguments, &mut cells)
            .map_err(|wrong| (statement.text, wrong))?;
    }
    framed(out, |out| {
        out.push(Outcome::Rows as u8);
        out.extend_from_slice(&(cells.len() as u16).to_ne_bytes());
        cells
            .iter()
            .for_each(|value| frames::write_cell(cell(value), out));
    });
    Ok(())
}

/// Carries a statement out, and keeps the cells of the row that is looked at.
fn carry_out(
    connection: &Connection,
    asked: &OneOf<'_>,
    arguments: &[Argument<'_>],
    cells: &mut Vec<Value>,
) -> Result<(), Wrong> {
    let mut statement = connection.prepare_cached(asked.text)?;
    for (number, source) in (1..).zip(&asked.sources) {
        let missing = || Wrong::Rows("a statement before it has not answered that");
        let value: &dyn ToSql = match source {
            Source::Argument(at) => &Bound(*arguments.get(*at).ok_or_else(missing)?),
            Source::Cell(at) => cells.get(*at).ok_or_else(missing)?,
        };
        statement.raw_bind_parameter(number, value)?;
    }
    let width = statement.column_count();
    if asked.columns > 0 && asked.columns != width.max(1) {
        return Err(Wrong::Rows(
            "it answers another number of columns than the page takes",
        ));
    }
    let before = connection.total_changes();
    let mut bytes: usize = cells.iter().map(|value| size(value.into())).sum();
    let mut count = 0;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        count += 1;
        if asked.columns > 0 && count == 1 {
            for column in 0..width {
                bytes += size(row.get_ref(column)?);
                if bytes > frames::ANSWER_MAX {
                    return Err(Wrong::Rows(
                        "with its row, those of the transaction are more than 1 MiB",
                    ));
                }
                cells.push(row.get(column)?);
            }
        }
    }
    if asked.columns > 0 && width == 0 {
        let changed = connection.total_changes() - before;
        cells.push(Value::Integer(changed as i64));
        count = 1;
    }
    match (asked.columns, count) {
        (0, _) | (_, 1) => Ok(()),
        (_, 0) => Err(Wrong::NoRow),
        _ => Err(Wrong::Rows(
            "it answers several rows, and in a transaction `row` is exactly one",
        )),
    }
}

/// How many bytes of text a value has.
fn size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

fn cell(value: &Value) -> Cell<'_> {
    match value {
        Value::Null => Cell::Null,
        Value::Integer(value) => Cell::Int(*value),
        Value::Real(value) => Cell::Float(*value),
        Value::Text(text) => Cell::Text(text.as_bytes()),
        Value::Blob(bytes) => Cell::Bytes(bytes),
    }
}
