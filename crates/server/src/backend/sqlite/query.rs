//! A query, as a worker tells it to a thread of the database.

use super::frames::{first, framed};
use crate::backend::arguments::{keep, kept};
use crate::backend::sql::numbered;
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::{Asking, Call, Source, Statement};

/// A query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'a> {
    pub(super) changes: bool,
    /// The page sees what became of it.
    pub(super) has_name: bool,
    /// How many columns the page takes.
    pub(super) columns: u16,
    pub(super) asked: Asked<'a>,
    /// As [`keep`] keeps them.
    arguments: &'a [u8],
}

/// What a query asks.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    /// One statement.
    Statement(&'a str),
    /// Those of a transaction, as [`OneOf`] reads them.
    Transaction(&'a [u8]),
}

/// What a frame of a query begins with.
const KINDS: [Asking; 3] = [Asking::Query, Asking::Exec, Asking::Transaction];

impl<'a> Query<'a> {
    /// Appends one of a call, of which the page takes so many columns. A statement has `?1`, `?2`,
    /// ... for its arguments.
    pub(super) fn write<'b>(
        call: &Call,
        columns: u16,
        arguments: impl Iterator<Item = Argument<'b>>,
        out: &mut Vec<u8>,
    ) {
        framed(out, |out| {
            let kind = KINDS.iter().position(|kind| *kind == call.asking);
            out.push(kind.unwrap_or(0) as u8);
            out.push(u8::from(call.has_name));
            out.extend_from_slice(&columns.to_ne_bytes());
            framed(out, |out| match call.asking {
                Asking::Transaction => write_all(&call.statements, out),
                _ => numbered(&call.form.pieces, b'?', out),
            });
            keep(arguments, out);
        });
    }

    /// The query of a frame. `None` where it is of another form.
    pub(super) fn read(frame: &'a [u8]) -> Option<Query<'a>> {
        let (&kind, rest) = frame.split_first()?;
        let kind = *KINDS.get(usize::from(kind))?;
        let (has_name, rest) = rest.split_first()?;
        let (columns, rest) = rest.split_first_chunk()?;
        let (asked, used) = first(rest)?;
        Some(Query {
            changes: kind != Asking::Query,
            has_name: *has_name != 0,
            columns: u16::from_ne_bytes(*columns),
            asked: match kind {
                Asking::Transaction => Asked::Transaction(asked),
                _ => Asked::Statement(std::str::from_utf8(asked).ok()?),
            },
            arguments: &rest[used..],
        })
    }

    pub(super) fn arguments(&self) -> impl Iterator<Item = Argument<'a>> + use<'a> {
        kept(self.arguments)
    }
}

/// Appends the statements of a transaction, each in a frame: how many columns are looked at (16),
/// how many arguments it has (16), where each comes from (8, 32), and its text.
fn write_all(statements: &[Statement], out: &mut Vec<u8>) {
    for statement in statements {
        framed(out, |out| {
            out.extend_from_slice(&statement.columns.to_ne_bytes());
            out.extend_from_slice(&(statement.arguments.len() as u16).to_ne_bytes());
            for source in &statement.arguments {
                let (tag, number) = match source {
                    Source::Argument(number) => (0, *number),
                    Source::Cell(number) => (1, *number),
                };
                out.push(tag);
                out.extend_from_slice(&(number as u32).to_ne_bytes());
            }
            numbered(&statement.form.pieces, b'?', out);
        });
    }
}

/// A statement that [`write_all`] has written.
pub(super) struct OneOf<'a> {
    pub(super) columns: usize,
    pub(super) sources: Vec<Source>,
    pub(super) text: &'a str,
}

impl<'a> OneOf<'a> {
    /// That of a frame. `None` where it is of another form.
    pub(super) fn read(frame: &'a [u8]) -> Option<OneOf<'a>> {
        let (columns, rest) = frame.split_first_chunk()?;
        let (count, mut rest) = rest.split_first_chunk()?;
        let mut sources = Vec::new();
        for _ in 0..u16::from_ne_bytes(*count) {
            let (tag, after) = rest.split_first()?;
            let (number, after) = after.split_first_chunk()?;
            let number = u32::from_ne_bytes(*number) as usize;
            sources.push(match tag {
                0 => Source::Argument(number),
                _ => Source::Cell(number),
            });
            rest = after;
        }
        Some(OneOf {
            columns: usize::from(u16::from_ne_bytes(*columns)),
            sources,
            text: std::str::from_utf8(rest).ok()?,
        })
    }
}
