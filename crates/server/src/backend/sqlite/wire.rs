//! What a pool's connections to a database's threads say.

use super::frames::{self, HELLO, Outcome};
use super::opened::Pool;
use super::query::Query;
use crate::backend::answers::QueryAnswers;
use crate::backend::awaited::{Awaited, Which};
use crate::backend::failure::Cause;
use crate::backend::sql::BROKEN;
use crate::backend::wire::{Greeting, Unreadable, Verdict, Wire};
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::Call;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct SqliteWire {
    /// Whose it is, if it is one that has threads.
    _pool: Option<Pool>,
}

impl SqliteWire {
    /// That of a pool.
    pub(super) fn of(pool: Pool) -> SqliteWire {
        SqliteWire { _pool: Some(pool) }
    }
}

/// The beginning of an answer.
#[derive(Debug, Default)]
pub(super) struct Begun(Vec<u8>);

impl Wire for SqliteWire {
    type Connection = Begun;

    fn greet(
        &mut self,
        _: &mut Begun,
        input: &[u8],
        _: &mut Vec<u8>,
    ) -> Result<Greeting, Unreadable> {
        match input {
            [] => Ok(Greeting::More),
            [HELLO, ..] => Ok(Greeting::Done { used: 1 }),
            _ => Err(Unreadable),
        }
    }

    fn encode<'a>(
        &mut self,
        _: &mut Begun,
        _: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        let columns = if call.has_name { call.columns } else { 0 };
        Query::write(call, columns, arguments, out);
    }

    fn decode(
        &mut self,
        begun: &mut Begun,
        input: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<(usize, Option<Verdict>), Unreadable> {
        if begun.0.is_empty()
            && let Some((frame, used)) = frames::first(input)
        {
            return Ok((used, Some(verdict(frame, awaited, answers)?)));
        }
        // Its length may be known only when some of it has come.
        let mut used = 0;
        loop {
            let missing = frames::missing(&begun.0).min(input.len() - used);
            begun.0.extend_from_slice(&input[used..used + missing]);
            used += missing;
            if let Some((frame, _)) = frames::first(&begun.0) {
                let verdict = verdict(frame, awaited, answers)?;
                begun.0 = Vec::new();
                return Ok((used, Some(verdict)));
            }
            if used == input.len() {
                return Ok((used, None));
            }
        }
    }
}

/// Delivers the rows of an answer, and tells what became of its query.
fn verdict(
    frame: &[u8],
    awaited: &Awaited,
    answers: &mut QueryAnswers,
) -> Result<Verdict, Unreadable> {
    let (outcome, rest) = Outcome::read(frame).ok_or(Unreadable)?;
    let has_name = awaited.call(Which::Oldest).is_none_or(|call| call.has_name);
    let outcome = match outcome {
        Outcome::Rows => {
            let (width, cells) = rest.split_first_chunk().ok_or(Unreadable)?;
            let width = usize::from(u16::from_ne_bytes(*width));
            for (cell, number) in frames::cells(cells).zip(1..) {
                answers.cell(cell.ok_or(Unreadable)?);
                if number % width.max(1) == 0 {
                    answers.end_row();
                }
            }
            Ok(0)
        }
        Outcome::Broken if has_name => Ok(BROKEN),
        // The page cannot see that nothing was changed.
        Outcome::Broken | Outcome::Refused => Err(Cause::Refused),
        Outcome::Late => Err(Cause::Late),
        Outcome::Unfit => Err(Cause::Unfit("see the log's line about its statement")),
        Outcome::Failed => Err(Cause::Unwell),
    };
    Ok(Verdict {
        query: Which::Oldest,
        is_healthy: !matches!(outcome, Err(Cause::Unwell)),
        outcome,
        goes_on: true,
    })
}
