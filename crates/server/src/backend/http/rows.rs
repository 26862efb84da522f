//! Rows, out of a document of JSON (RFC 8259): where its page says that they are.

use crate::backend::answers::QueryAnswers;
use crate::json::{self, Kind, kind};
use rhythm_engine::cohort::{Cell, ROWS_MAX};
use rhythm_engine::program::{Document, DocumentColumn, DocumentPath, DocumentStep, Type};
use sonic_rs::{JsonValueTrait, LazyValue};

/// How deep a document is at most. The reader goes down by calling itself.
const DEPTH_MAX: usize = 128;

/// Delivers the rows of a document.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn deliver(
    body: &[u8],
    document: &Document,
    answers: &mut QueryAnswers,
) -> Result<(), String> {
    let text = std::str::from_utf8(body).map_err(|_| "its answer is not UTF-8")?;
    if json::too_deep(body, DEPTH_MAX).is_some() {
        return Err("its answer is too deep".to_owned());
    }
    let whole: LazyValue<'_> =
        sonic_rs::from_str(text).map_err(|_| "its answer is no document of JSON")?;
    let Some(rows) = find(whole, &document.rows.0)? else {
        return Err(format!("there is no {} in its answer", document.rows));
    };
    let mut found = Vec::new();
    match kind(&rows) {
        Kind::Null => Ok(()),
        Kind::List => {
            for (row, number) in items(rows).zip(1..) {
                if number > ROWS_MAX {
                    return Err(format!("it answers more than {ROWS_MAX} rows"));
                }
                deliver_row(row?, number, document, &mut found, answers)?;
            }
            Ok(())
        }
        _ => deliver_row(rows, 1, document, &mut found, answers),
    }
}

const UNREADABLE: &str = "its answer cannot be read";

/// The items of a list.
fn items<'v>(list: LazyValue<'v>) -> impl Iterator<Item = Result<LazyValue<'v>, String>> {
    json::items(list).map(|item| item.map_err(|_| UNREADABLE.to_owned()))
}

/// Calls `each` with the members of an object.
fn members<'v>(
    object: LazyValue<'v>,
    each: impl FnMut(&str, LazyValue<'v>) -> Result<(), String>,
) -> Result<(), String> {
    json::members(object, each).unwrap_or_else(|_| Err(UNREADABLE.to_owned()))
}

/// The value to which these steps lead from another, if they lead to one.
fn find<'v>(
    mut value: LazyValue<'v>,
    steps: &[DocumentStep],
) -> Result<Option<LazyValue<'v>>, String> {
    for step in steps {
        let mut found = None;
        match (step, kind(&value)) {
            (DocumentStep::Member(wanted), Kind::Object) => {
                members(value, |name, value| match name == &**wanted {
                    true => once(&mut found, value, name),
                    false => Ok(()),
                })?;
            }
            (DocumentStep::Item(number), Kind::List) => {
                found = items(value).nth(*number).transpose()?;
            }
            _ => {}
        }
        match found {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Keeps what was found. Which of two members of one name would count depends on who reads them.
fn once<'v>(
    found: &mut Option<LazyValue<'v>>,
    value: LazyValue<'v>,
    name: &str,
) -> Result<(), String> {
    match found.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("an object has `{name}` twice")),
    }
}

/// Delivers a row. `found` is memory for its cells.
fn deliver_row<'v>(
    row: LazyValue<'v>,
    number: u32,
    document: &Document,
    found: &mut Vec<Option<LazyValue<'v>>>,
    answers: &mut QueryAnswers,
) -> Result<(), String> {
    found.clear();
    found.resize_with(document.columns.len(), || None);
    // Most cells are members of the row: one pass finds them all.
    if kind(&row) == Kind::Object {
        members(row.clone(), |name, value| {
            for (column, found) in document.columns.iter().zip(&mut *found) {
                let DocumentPath(steps) = &column.path;
                if matches!(steps.first(), Some(DocumentStep::Member(first)) if **first == *name) {
                    once(found, value.clone(), name)?;
                }
            }
            Ok(())
        })?;
    }
    for (column, found) in document.columns.iter().zip(&mut *found) {
        let steps = &column.path.0;
        let value = match (steps.first(), found.take()) {
            (Some(DocumentStep::Member(_)), None) => None,
            (Some(DocumentStep::Member(_)), Some(member)) => find(member, &steps[1..])?,
            _ => find(row.clone(), steps)?,
        };
        let wrong = |what: &str| format!("`{}` of row {number} {what}", column.name);
        match value {
            Some(value) => deliver_cell(&value, column, answers).map_err(wrong)?,
            None if column.may_lack => answers.cell(Cell::Null),
            None => return Err(wrong("is not there")),
        }
    }
    answers.end_row();
    Ok(())
}

/// Delivers a cell, or says why it is none that its page takes.
fn deliver_cell(
    value: &LazyValue<'_>,
    column: &DocumentColumn,
    answers: &mut QueryAnswers,
) -> Result<(), &'static str> {
    // What the reader gives of a number may have blanks behind it.
    let raw = value.as_raw_str().trim_ascii_end();
    let integer = |text: &str| text.parse::<i64>().ok();
    let is_int = column.kind == Type::Int;
    const NO_INTEGER: &str = "is no integer of 64 bits";
    match kind(value) {
        Kind::Null => answers.cell(Cell::Null),
        Kind::Bool => answers.cell(Cell::Bool(raw == "true")),
        Kind::Number => match integer(raw) {
            Some(number) => answers.cell(Cell::Int(number)),
            None if is_int => return Err(NO_INTEGER),
            None => answers.cell(Cell::Decimal(raw.as_bytes())),
        },
        Kind::Text => {
            let text = value.as_str().ok_or("is no text of Unicode")?;
            if is_int && integer(text).is_none() {
                return Err(NO_INTEGER);
            }
            answers.cell(Cell::Text(text.as_bytes()));
        }
        Kind::List => return Err("is a list"),
        Kind::Object => return Err("is an object"),
    }
    Ok(())
}
