//! What a worker and a thread of the database say to each other, and the bytes of it. Both are of
//! one process, so it has no versions; each frame is its length in 32 bits and what follows. The
//! thread begins, with a byte: before it has, nobody is there.
//!
//! ```text
//!   query   what it is (8), columns (16), its statements, arguments                 query.rs
//!   answer  outcome (8); of rows: cells of a row (16), all cells, row by row
//! ```

use rhythm_engine::cohort::Cell;

/// What a thread says first. A connection is open before it has one; what is sent over it then
/// would count as delivered, and wait for whoever comes.
pub(super) const HELLO: u8 = b'!';

/// Most bytes of an answer.
pub(super) const ANSWER_MAX: usize = 1 << 20;

/// The bytes that say how long a frame is.
const LENGTH: usize = 4;

/// The first whole frame, and how many bytes it takes; `None` where its end has not come.
pub(super) fn first(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let length = u32::from_ne_bytes(*length) as usize;
    Some((rest.get(..length)?, LENGTH + length))
}

/// How many more bytes the first frame needs, of which these are the beginning.
pub(super) fn missing(bytes: &[u8]) -> usize {
    let length = match bytes.first_chunk::<LENGTH>() {
        Some(length) => u32::from_ne_bytes(*length) as usize,
        None => 0,
    };
    (LENGTH + length).saturating_sub(bytes.len())
}

/// Appends a frame that `write` appends the contents of.
pub(super) fn framed<T>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    let written = write(out);
    let length = (out.len() - start - LENGTH) as u32;
    out[start..start + LENGTH].copy_from_slice(&length.to_ne_bytes());
    written
}

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Outcome {
    /// It was answered: rows follow.
    Rows,
    /// It would break a rule of the database, such as a column's being unique: nothing is changed.
    Broken,
    /// It is no statement that the database takes.
    Refused,
    /// It took too long, or waited too long for who writes.
    Late,
    /// Its rows are not those that the page takes, or too many.
    Unfit,
    /// The database failed: its disk is full, say, or the file is none.
    Failed,
}

impl Outcome {
    const ALL: [Outcome; 6] = [
        Outcome::Rows,
        Outcome::Broken,
        Outcome::Refused,
        Outcome::Late,
        Outcome::Unfit,
        Outcome::Failed,
    ];

    /// The outcome that an answer's frame begins with, and what follows it.
    pub(super) fn read(frame: &[u8]) -> Option<(Outcome, &[u8])> {
        let (number, rest) = frame.split_first()?;
        Some((*Outcome::ALL.get(usize::from(*number))?, rest))
    }
}

/// The kinds of cells, as frames have them.
mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const INT: u8 = 1;
    pub(super) const FLOAT: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    pub(super) const BYTES: u8 = 4;
}

/// Appends a cell of the kinds that SQLite has.
pub(super) fn write_cell(cell: Cell<'_>, out: &mut Vec<u8>) {
    let mut bytes = |tag, bytes: &[u8]| {
        out.push(tag);
        framed(out, |out| out.extend_from_slice(bytes));
    };
    match cell {
        Cell::Int(value) => {
            out.push(tag::INT);
            out.extend_from_slice(&value.to_ne_bytes());
        }
        Cell::Float(value) => {
            out.push(tag::FLOAT);
            out.extend_from_slice(&value.to_ne_bytes());
        }
        Cell::Text(text) => bytes(tag::TEXT, text),
        Cell::Bytes(blob) => bytes(tag::BYTES, blob),
        _ => out.push(tag::NULL),
    }
}

/// The cells that [`write_cell`] has written one behind the other. `None` for one that is none.
pub(super) fn cells(mut bytes: &[u8]) -> impl Iterator<Item = Option<Cell<'_>>> {
    std::iter::from_fn(move || {
        let (&tag, rest) = bytes.split_first()?;
        let read = || {
            let word = || rest.first_chunk().copied();
            Some(match tag {
                tag::NULL => (Cell::Null, 0),
                tag::INT => (Cell::Int(i64::from_ne_bytes(word()?)), 8),
                tag::FLOAT => (Cell::Float(f64::from_ne_bytes(word()?)), 8),
                tag::TEXT => first(rest).map(|(text, used)| (Cell::Text(text), used))?,
                tag::BYTES => first(rest).map(|(blob, used)| (Cell::Bytes(blob), used))?,
                _ => return None,
            })
        };
        let read = read();
        bytes = read.map_or(&[], |(_, used)| &rest[used..]);
        Some(read.map(|(cell, _)| cell))
    })
}
