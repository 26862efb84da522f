//! Rows, out of a reply, by one rule: what a list or a map holds are rows, and what lies deeper
//! are the cells of one, in its order.

use super::reply::{Scalar, Token, Tokens};
use crate::backend::answers::QueryAnswers;
use crate::backend::wire::Unreadable;
use rhythm_engine::cohort::{Cell, ROWS_MAX};

/// What a reply says beside its rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read<'a> {
    Rows,
    /// More rows than are taken.
    ManyRows,
    /// It is, or holds, an error.
    Error(&'a [u8]),
}

/// Reads a reply that has come whole, and delivers its rows, or all that it holds as one row. Of a
/// row with more cells than there are columns not all are delivered.
pub(super) fn read<'a>(
    reply: &'a [u8],
    columns: usize,
    is_one_row: bool,
    answers: &mut QueryAnswers,
) -> Result<Read<'a>, Unreadable> {
    let mut values = Tokens(reply);
    // How many values there are, and how many a row has.
    let (count, width) = match values.clone().next().ok_or(Unreadable)? {
        Token::Scalar(Scalar::Null) => return Ok(Read::Rows),
        Token::Scalar(_) => (1, 1),
        Token::List(0) | Token::Map(0) => return Ok(Read::Rows),
        Token::List(count) | Token::Map(count) if is_one_row => (count, count),
        Token::List(count) => (count, 1),
        Token::Map(count) => (count, 2),
        Token::Beside(_) => return Err(Unreadable),
    };
    if !matches!(values.clone().next(), Some(Token::Scalar(_))) {
        values.next();
    }
    for row in 0..count / width {
        // One too many tells that it does not fit.
        let mut room = columns + 1;
        for _ in 0..width {
            if let Some(error) = cells(&mut values, &mut room, answers)? {
                return Ok(Read::Error(error));
            }
        }
        if row >= ROWS_MAX as usize {
            return Ok(Read::ManyRows);
        }
        answers.end_row();
    }
    Ok(Read::Rows)
}

/// Delivers the cells of a value, no more than there is room for; an error ends that.
fn cells<'a>(
    values: &mut Tokens<'a>,
    room: &mut usize,
    answers: &mut QueryAnswers,
) -> Result<Option<&'a [u8]>, Unreadable> {
    let mut left = 1_usize;
    while left > 0 {
        left -= 1;
        match values.next().ok_or(Unreadable)? {
            Token::Scalar(Scalar::Error(error)) => return Ok(Some(error)),
            Token::Scalar(_) if *room == 0 => {}
            Token::Scalar(scalar) => {
                *room -= 1;
                answers.cell(cell(scalar));
            }
            Token::List(count) | Token::Map(count) => left += count,
            Token::Beside(_) => return Err(Unreadable),
        }
    }
    Ok(None)
}

fn cell(scalar: Scalar<'_>) -> Cell<'_> {
    match scalar {
        Scalar::Null => Cell::Null,
        Scalar::Text(text) | Scalar::Error(text) => Cell::Text(text),
        Scalar::Int(value) => Cell::Int(value),
        Scalar::Bool(value) => Cell::Bool(value),
        // `inf` and `nan` are none.
        Scalar::Number(text) if text.last().is_some_and(u8::is_ascii_digit) => Cell::Decimal(text),
        Scalar::Number(text) => Cell::Text(text),
    }
}
