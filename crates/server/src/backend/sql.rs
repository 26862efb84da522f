//! Statements of SQL as databases are sent them, and what their answers must be for pages.

use rhythm_engine::diagnostic::Severity;
use rhythm_engine::kind::{CallMistake, CallPart, PageCall};
use rhythm_engine::program::Asking;

/// The status of a statement that would break a rule of the database.
pub(super) const BROKEN: i64 = 1;

/// What a database says of a statement that it has prepared.
pub(super) struct Described {
    /// How many values it wants.
    pub(super) values: usize,
    /// How many columns it answers; 0 where it returns nothing.
    pub(super) columns: usize,
    /// Whether it only reads, as far as is known.
    pub(super) reads: bool,
}

/// A mistake of a call's.
pub(super) fn mistake(
    part: CallPart,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> CallMistake {
    CallMistake {
        part,
        at: None,
        severity: Severity::Error,
        message: message.into(),
        hint: hint.into(),
    }
}

/// What is wrong with a call whose statement is this. `names` is a hint where columns are too many
/// or too few.
pub(super) fn unlike(
    call: &PageCall<'_>,
    described: &Described,
    names: impl Into<String>,
) -> Option<CallMistake> {
    if described.values != call.form.arguments.len() {
        let message = "it has values that are not given by name";
        let hint = "`:name` where a value goes, and args = { name = \"expression\" }";
        return Some(mistake(CallPart::Asked, message, hint));
    }
    if call.asking == Asking::Query && !described.reads {
        let message = "this statement changes something, and `query` only reads";
        return Some(mistake(
            CallPart::Asked,
            message,
            "exec = \"...\" is for such",
        ));
    }
    let (given, answered) = (call.columns.len(), described.columns);
    if answered == 0 && given != 1 {
        let message =
            "a statement that returns nothing answers 1 column: how many rows it has changed";
        let hint = "row = \"done(changed:int)\", or neither `row` nor `rows`";
        return Some(mistake(CallPart::Columns, message, hint));
    }
    // Where it has no name, nobody looks at what it answers.
    let differs = answered != 0 && call.has_name && answered != given;
    let so_many = match answered {
        1 => "1 column".to_owned(),
        count => format!("{count} columns"),
    };
    let message = format!("the statement answers {so_many}, not {given}");
    differs.then(|| mistake(CallPart::Columns, message, names))
}

/// Appends a statement: its pieces, and between them its arguments by number, `?1` or `$1`.
pub(super) fn numbered(pieces: &[Box<[u8]>], mark: u8, out: &mut Vec<u8>) {
    for (piece, number) in pieces.iter().zip(0..) {
        if number > 0 {
            out.push(mark);
            out.extend_from_slice(itoa::Buffer::new().format::<u32>(number).as_bytes());
        }
        out.extend_from_slice(piece);
    }
}

/// What is left of a statement behind the blanks and comments that it begins with.
pub(super) fn behind_comments(statement: &[u8]) -> &[u8] {
    let mut rest = statement.trim_ascii_start();
    loop {
        let end = match rest {
            [b'-', b'-', ..] => memchr::memchr(b'\n', rest).map(|at| at + 1),
            [b'/', b'*', ..] => memchr::memmem::find(rest, b"*/").map(|at| at + 2),
            _ => return rest,
        };
        rest = rest[end.unwrap_or(rest.len())..].trim_ascii_start();
    }
}

/// In which piece a byte of the statement is that [`numbered`] makes, and how far into it; of an
/// argument it is where the piece before ends.
pub(super) fn in_pieces(pieces: &[Box<[u8]>], offset: usize) -> Option<(usize, usize)> {
    let mut begin = 0;
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            begin += 1 + itoa::Buffer::new().format(index).len();
        }
        let Some(inside) = offset.checked_sub(begin) else {
            return Some((index - 1, pieces[index - 1].len()));
        };
        if inside < piece.len() {
            return Some((index, inside));
        }
        begin += piece.len();
    }
    Some((pieces.len().checked_sub(1)?, pieces.last()?.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_a_statement_is_found_in_its_pieces() {
        let mut pieces: Vec<Box<[u8]>> = vec![b"select ".as_slice().into()];
        pieces.extend((0..10).map(|_| b" + ".as_slice().into()));
        let mut statement = Vec::new();
        numbered(&pieces, b'$', &mut statement);
        assert!(statement.ends_with(b"$9 + $10 + "));
        for (offset, place) in [
            (0, (0, 0)),
            (6, (0, 6)),
            // `$1`
            (7, (0, 7)),
            (8, (0, 7)),
            (9, (1, 0)),
            (11, (1, 2)),
            (12, (1, 3)),
            (statement.len() - 1, (10, 2)),
            // `$10`
            (statement.len() - 4, (9, 3)),
            (statement.len(), (10, 3)),
        ] {
            assert_eq!(in_pieces(&pieces, offset), Some(place), "{offset}");
        }
    }
}
