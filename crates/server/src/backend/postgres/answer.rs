//! The answer to one query, when it has come whole.

use super::cells::cell;
use super::messages::{self, Fields, Message, ServerError};
use crate::backend::answers::QueryAnswers;
use crate::backend::wire::Unreadable;
use rhythm_engine::cohort::Cell;

/// What is answered.
#[derive(Debug)]
pub(super) struct Answered<'c> {
    /// It stood in a transaction of its own.
    pub(super) changes: bool,
    /// Somebody looks at the rows.
    pub(super) is_seen: bool,
    /// The types of its columns, which an answer that prepares it tells anew. Empty where the
    /// statement returns nothing.
    pub(super) columns: &'c mut Vec<u32>,
}

/// What an answer says beside its rows.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// What went wrong first.
    pub(super) error: Option<ServerError>,
    /// The server knows the statement and its columns.
    pub(super) is_prepared: bool,
    /// The types of its values, where it was prepared.
    pub(super) parameters: Vec<u32>,
    /// It has more rows than were asked for.
    pub(super) has_more: bool,
}

/// Reads an answer, and delivers its cells. Of a statement that returns nothing the one row is how
/// many rows it has changed.
pub(super) fn read(
    bytes: &[u8],
    of: Answered<'_>,
    room: &mut Vec<u8>,
    answers: &mut QueryAnswers,
) -> Result<Read, Unreadable> {
    let mut read = Read::default();
    // Those of the transaction's beginning, the statement and its end.
    let (mut completed, statements) = (0, if of.changes { 3 } else { 1 });
    let its = usize::from(of.changes);
    let mut state = 0;
    for Message { tag, body } in messages::all(bytes) {
        let mut fields = Fields(body);
        match tag {
            b't' => {
                read.is_prepared = true;
                read.parameters = parameters(fields)?;
            }
            b'T' => columns(fields, of.columns)?,
            b'n' => of.columns.clear(),
            b'D' if of.is_seen && !of.columns.is_empty() => {
                row(fields, of.columns, room, answers)?;
            }
            b'D' => {}
            b'C' => {
                if completed == its && of.is_seen && of.columns.is_empty() {
                    answers.cell(Cell::Int(changed(fields.text()?)));
                    answers.end_row();
                }
                completed += 1;
            }
            // Nothing but comments: it changes nothing.
            b'I' => completed += 1,
            b's' => {
                read.has_more = of.is_seen;
                completed += 1;
            }
            b'E' => {
                let error = ServerError::read(body)?;
                read.error.get_or_insert(error);
            }
            b'Z' => state = fields.u8()?,
            // What was done on the way, and what the server says beside.
            b'1' | b'2' | b'3' | b'N' | b'A' | b'S' => {}
            _ => return Err(Unreadable),
        }
    }
    // A transaction that is open would be the next one's, too.
    match state == b'I' && (read.error.is_some() || completed == statements) {
        true => Ok(read),
        false => Err(Unreadable),
    }
}

/// Reads what an answer that prepares its statement tells of it, and nothing else: the types of its
/// columns, and those of its values, which it gives. `None` where it does not tell all of that.
pub(super) fn described(
    bytes: &[u8],
    types: &mut Vec<u32>,
) -> Result<Option<Vec<u32>>, Unreadable> {
    let (mut values, mut has_columns) = (None, false);
    for Message { tag, body } in messages::all(bytes) {
        match tag {
            b't' => values = Some(parameters(Fields(body))?),
            b'T' => {
                columns(Fields(body), types)?;
                has_columns = true;
            }
            b'n' => {
                types.clear();
                has_columns = true;
            }
            _ => {}
        }
    }
    Ok(values.filter(|_| has_columns))
}

/// Reads the types of values.
fn parameters(mut fields: Fields<'_>) -> Result<Vec<u32>, Unreadable> {
    let count = fields.u16()?;
    (0..count).map(|_| fields.u32()).collect()
}

/// Most columns that a statement has (MaxTupleAttributeNumber).
const COLUMNS_MAX: u16 = 1664;

/// Reads the types of columns.
pub(super) fn columns(mut fields: Fields<'_>, types: &mut Vec<u32>) -> Result<(), Unreadable> {
    types.clear();
    let count = fields.u16()?;
    if count > COLUMNS_MAX {
        return Err(Unreadable);
    }
    for _ in 0..count {
        // Its name; its table, and its place there.
        fields.text()?;
        fields.bytes(6)?;
        types.push(fields.u32()?);
        // What its type says more, and how it is written.
        fields.bytes(8)?;
    }
    Ok(())
}

fn row(
    mut fields: Fields<'_>,
    columns: &[u32],
    room: &mut Vec<u8>,
    answers: &mut QueryAnswers,
) -> Result<(), Unreadable> {
    if usize::from(fields.u16()?) != columns.len() {
        return Err(Unreadable);
    }
    for kind in columns {
        match fields.u32()? {
            u32::MAX => answers.cell(Cell::Null),
            length => answers.cell(cell(*kind, fields.bytes(length as usize)?, room)),
        }
    }
    answers.end_row();
    Ok(())
}

/// How many rows a statement has changed, by the last word of what it was: `UPDATE 7`.
pub(super) fn changed(tag: &[u8]) -> i64 {
    let word = tag.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let number = std::str::from_utf8(word).ok();
    number.and_then(|word| word.parse().ok()).unwrap_or(0)
}
