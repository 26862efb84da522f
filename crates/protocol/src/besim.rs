//! The protocol of BeSim, the backend simulator of the Banking workload.
//!
//! A request is a query `1&command&argument&...`: the leading 1 is the workload, arguments are
//! percent-encoded so that none can pose as two. An answer's body has, between the lines `<pre>`
//! and `</pre>`, a line with a status digit (0 good, 1 bad), then a line for each row, its columns
//! joined with `&`. Plain answers encode nothing, so their values never hold `&`, control
//! characters or what would end the block; [`write_row`] replaces them by spaces, and [`decode`]
//! refuses what it cannot tell apart. Where the status is followed by `%`, values are
//! percent-encoded (RFC 3986, section 2.1) and can hold any bytes ([`write_encoded_row`]); who
//! knows plain answers only refuses such a status instead of misreading values.

use crate::http::uri;
use crate::scan::{Level, Separators, Simd, Task, separators};

pub use crate::http::uri::{decode_form as decode_argument, encode as encode_argument};

/// What is wrong with a BeSim request or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum BesimError {
    /// A request that is not `1&command` and arguments.
    #[error("malformed BeSim request")]
    Request,
    /// No line `<pre>` in the answer.
    #[error("BeSim answer without <pre>")]
    NoPre,
    /// The answer ends before a line `</pre>`.
    #[error("BeSim answer without </pre>")]
    NotClosed,
    /// The first line is not a single digit.
    #[error("BeSim answer without a status")]
    Status,
    /// A row has more or fewer columns than expected.
    #[error("wrong number of columns in a BeSim row")]
    Columns,
    /// More rows than allowed.
    #[error("too many rows in a BeSim answer")]
    TooManyRows,
    /// A control character in a row.
    #[error("control character in a BeSim row")]
    Control,
    /// A row that is not UTF-8.
    #[error("BeSim answer is not UTF-8")]
    NotUtf8,
    /// A value that is not percent-encoded where the answer says that all are.
    #[error("a value of a BeSim answer is not percent-encoded")]
    Encoding,
}

/// A request, split but not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The command's number.
    pub command: u32,
    arguments: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Splits the query of a request.
    ///
    /// # Errors
    /// When it does not start with the workload 1 and a command number.
    pub fn parse(query: &'a [u8]) -> Result<Request<'a>, BesimError> {
        let rest = query.strip_prefix(b"1&").ok_or(BesimError::Request)?;
        let end = memchr::memchr(b'&', rest).unwrap_or(rest.len());
        let command = &rest[..end];
        if command.is_empty() || command.len() > 4 || !command.iter().all(u8::is_ascii_digit) {
            return Err(BesimError::Request);
        }
        Ok(Request {
            command: command
                .iter()
                .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')),
            arguments: rest.get(end + 1..),
        })
    }

    /// Its arguments in order; decode each with [`decode_argument`].
    pub fn arguments(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.arguments
            .into_iter()
            .flat_map(|arguments| arguments.split(|byte| *byte == b'&'))
    }
}

/// Appends the start of an answer with this status (0 good, 1 bad) to `out`.
///
/// # Panics
/// If the status is not a digit.
pub fn start_answer(status: u8, out: &mut Vec<u8>) {
    assert!(status <= 9, "a status is one digit");
    out.extend_from_slice(b"<pre>\n");
    out.extend_from_slice(&[b'0' + status, b'\n']);
}

/// Appends the start of an answer of good status whose values are percent-encoded to `out`.
pub fn start_encoded_answer(out: &mut Vec<u8>) {
    out.extend_from_slice(b"<pre>\n0%\n");
}

/// Appends a row to an answer with encoded values. Any bytes come back as they were.
pub fn write_encoded_row<'a>(columns: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (i, column) in columns.into_iter().enumerate() {
        if i > 0 {
            out.push(b'&');
        }
        uri::encode(column, out);
    }
    out.push(b'\n');
}

/// Appends a row to an answer, with spaces for what a value cannot hold: `&`, control characters,
/// and the `<` of a row that would end the block.
pub fn write_row<'a>(columns: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let start = out.len();
    for (i, column) in columns.into_iter().enumerate() {
        if i > 0 {
            out.push(b'&');
        }
        out.extend(column.iter().map(|byte| match byte {
            b'&' | 0..=0x1f | 0x7f => b' ',
            _ => *byte,
        }));
    }
    if &out[start..] == END {
        out[start] = b' ';
    }
    out.push(b'\n');
}

/// Appends the end of an answer to `out`.
pub fn end_answer(out: &mut Vec<u8>) {
    out.extend_from_slice(END);
    out.push(b'\n');
}

/// The line that starts an answer's block.
const START: &[u8] = b"<pre>\n";

/// The line that ends an answer's block.
const END: &[u8] = b"</pre>";

/// What an answer says besides its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0 for good.
    pub status: u8,
    /// How many rows it has.
    pub rows: u32,
    /// Whether its values are percent-encoded: each is to be decoded with [`uri::decode_bytes`].
    pub is_encoded: bool,
}

/// Reads answers to their values, with memory kept from one to the next.
#[derive(Debug, Default)]
pub struct AnswerReader {
    /// Where each value is, and its length.
    cells: Vec<(usize, usize)>,
    /// The values, where they came encoded.
    decoded: Vec<u8>,
}

/// An answer's values.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// 0 for good.
    pub status: u8,
    columns: usize,
    cells: &'a [(usize, usize)],
    bytes: &'a [u8],
}

impl AnswerReader {
    /// Reads the body of an answer whose rows have `columns` columns each, at most `rows_max` of
    /// them, as [`decode`] does.
    ///
    /// # Errors
    /// For anything that does not follow the protocol.
    pub fn read<'a>(
        &'a mut self,
        body: &'a [u8],
        columns: u32,
        rows_max: u32,
    ) -> Result<Values<'a>, BesimError> {
        let AnswerReader { cells, decoded } = self;
        cells.clear();
        let range = |start, length| (start, length);
        let answer = decode(body, columns, rows_max, cells, range)?;
        let mut bytes = body;
        if answer.is_encoded {
            decoded.clear();
            for (start, length) in cells.iter_mut() {
                let at = decoded.len();
                uri::decode_bytes(&body[*start..][..*length], decoded)
                    .map_err(|_| BesimError::Encoding)?;
                (*start, *length) = (at, decoded.len() - at);
            }
            bytes = decoded;
        }
        Ok(Values {
            status: answer.status,
            columns: columns as usize,
            cells,
            bytes,
        })
    }
}

impl<'a> Values<'a> {
    /// The values of each row, decoded.
    pub fn rows(self) -> impl Iterator<Item = impl Iterator<Item = &'a [u8]>> {
        let bytes = self.bytes;
        let value = move |&(start, length): &(usize, usize)| &bytes[start..][..length];
        // Without columns there is no row.
        let rows = self.cells.chunks(self.columns.max(1));
        rows.map(move |row| row.iter().map(value))
    }
}

/// Decodes the body of an answer whose rows have `columns` columns each, at most `rows_max` of
/// them. What `cell` makes of each value's offset in `body` and its length is appended to `cells`,
/// row by row; where the answer is refused, nothing is. All of the answer's block is UTF-8, and so
/// is each value. Where the status is not 0, what follows it is not looked at.
///
/// # Errors
/// For anything that does not follow the protocol.
pub fn decode<T>(
    body: &[u8],
    columns: u32,
    rows_max: u32,
    cells: &mut Vec<T>,
    cell: impl Fn(usize, usize) -> T,
) -> Result<Answer, BesimError> {
    let start = find_start(body).ok_or(BesimError::NoPre)?;
    let (status, is_encoded, rows_start) = match &body[start..] {
        [status @ b'0'..=b'9', b'\n', ..] => (status - b'0', false, start + 2),
        [status @ b'0'..=b'9', b'%', b'\n', ..] => (status - b'0', true, start + 3),
        _ => return Err(BesimError::Status),
    };
    if status != 0 {
        // What follows a bad status is for people, in no particular form.
        return Ok(Answer {
            status,
            rows: 0,
            is_encoded,
        });
    }
    let before = cells.len();
    let rows = Level::active().run(Rows {
        body,
        start: rows_start,
        columns: columns as usize,
        rows_max: rows_max as usize,
        cells,
        cell,
    });
    if rows.is_err() {
        cells.truncate(before);
    }
    Ok(Answer {
        status,
        rows: rows?,
        is_encoded,
    })
}

/// The offset after the line `<pre>`.
fn find_start(body: &[u8]) -> Option<usize> {
    if body.starts_with(START) {
        return Some(START.len());
    }
    memchr::memchr_iter(b'\n', body)
        .map(|newline| newline + 1)
        .find(|line| body[*line..].starts_with(START))
        .map(|line| line + START.len())
}

/// The rows from `start` to the line that ends the block; gives their number.
///
/// Of each 64 bytes first the line ends are judged, by how many separators came before them, then
/// all separators become cells at once: so neither walk has more than one question to ask.
struct Rows<'a, T, F> {
    body: &'a [u8],
    start: usize,
    columns: usize,
    rows_max: usize,
    cells: &'a mut Vec<T>,
    cell: F,
}

impl<T, F: Fn(usize, usize) -> T> Task for Rows<'_, T, F> {
    type Output = Result<u32, BesimError>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let Rows {
            body,
            columns,
            rows_max,
            cells,
            cell,
            ..
        } = self;
        let mut at = self.start;
        let (mut line_start, mut cell_start) = (at, at);
        // Cells in whole rows, cells found before `at`, and how many rows there are.
        let (mut in_rows, mut found, mut rows) = (0, 0, 0);
        let mut all_ascii = true;
        let utf8 = |all_ascii: bool, end: usize| {
            // One check for all values: separators are ASCII, so each value is whole characters.
            if all_ascii || core::str::from_utf8(&body[self.start..end]).is_ok() {
                Ok(())
            } else {
                Err(BesimError::NotUtf8)
            }
        };
        while at < body.len() {
            let Separators {
                mut ends,
                lines,
                controls,
                non_ascii,
            } = separators(s, body, at);
            all_ascii &= non_ascii == 0;
            // Bits below the first control character.
            let sound = controls.wrapping_sub(1) & !controls;
            ends &= sound;
            let mut lines_left = lines & sound;
            let mut block_end = None;
            while lines_left != 0 {
                let below = lines_left.wrapping_sub(1) & !lines_left;
                let line_end = at + lines_left.trailing_zeros() as usize;
                lines_left &= lines_left - 1;
                let cells_before = found + (ends & below).count_ones() as usize;
                if cells_before == in_rows && &body[line_start..line_end] == END {
                    block_end = Some(line_start);
                    ends &= below;
                    break;
                }
                in_rows += columns;
                if cells_before + 1 != in_rows {
                    return Err(BesimError::Columns);
                }
                if rows >= rows_max {
                    return Err(BesimError::TooManyRows);
                }
                rows += 1;
                line_start = line_end + 1;
            }
            let count = ends.count_ones() as usize;
            found += count;
            // A range of known length lets `extend` ask for memory once.
            cells.extend((0..count).map(|_| {
                let end = at + ends.trailing_zeros() as usize;
                ends &= ends.wrapping_sub(1);
                let start = core::mem::replace(&mut cell_start, end + 1);
                cell(start, end - start)
            }));
            if let Some(end) = block_end {
                return utf8(all_ascii, end).map(|()| rows as u32);
            }
            if controls != 0 {
                return Err(BesimError::Control);
            }
            // A row too long is refused before its end, so that cells are bounded by the limits
            // too.
            if found > in_rows + columns {
                return Err(BesimError::Columns);
            }
            at += 64;
        }
        // A last line without its LF still ends the block.
        if found == in_rows && &body[line_start..] == END {
            return utf8(all_ascii, line_start).map(|()| rows as u32);
        }
        Err(BesimError::NotClosed)
    }
}

#[cfg(test)]
mod tests;
