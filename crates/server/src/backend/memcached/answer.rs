//! Answers: a line of two letters or of an error's words, and behind that of a value the value.

use crate::backend::wire::Unreadable;

/// Most bytes of an answer.
pub(super) const ANSWER_MAX: usize = 1 << 20;

/// Most bytes of a line.
const LINE_MAX: usize = 2048;

/// An answer that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// `VA`: a value.
    Value(&'a [u8]),
    /// `HD`: it is done.
    Done,
    /// `NS`, `EX`: it is not stored.
    NotStored,
    /// `EN`, `NF`: there is nothing under the key.
    Nothing,
    /// `MN`: what came before is answered.
    NoOp,
    /// An error.
    Error(&'a [u8]),
}

/// The first line, without its end, and where what follows it begins.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Unreadable> {
    let head = &bytes[..bytes.len().min(LINE_MAX)];
    match memchr::memchr(b'\n', head) {
        Some(end) => {
            let line = head[..end].strip_suffix(b"\r").ok_or(Unreadable)?;
            Ok(Some((line, end + 1)))
        }
        None if head.len() == LINE_MAX => Err(Unreadable),
        None => Ok(None),
    }
}

/// How long the value is that follows a line, if one does.
fn value_length(line: &[u8]) -> Result<Option<usize>, Unreadable> {
    let Some(rest) = line.strip_prefix(b"VA ") else {
        return Ok(None);
    };
    let digits = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_number = (1..=7).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number);
    let length: Option<usize> = digits.and_then(|digits| digits.parse().ok());
    let length = length.filter(|length| *length <= ANSWER_MAX);
    length.map(Some).ok_or(Unreadable)
}

/// Where the first answer ends; `None` where its end has not come.
///
/// # Errors
/// It is none, or too long.
pub(super) fn end(bytes: &[u8]) -> Result<Option<usize>, Unreadable> {
    let Some((line, start)) = line(bytes)? else {
        return Ok(None);
    };
    let Some(length) = value_length(line)? else {
        return Ok(Some(start));
    };
    match bytes.get(start + length..start + length + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some(start + length + 2)),
        Some(_) => Err(Unreadable),
    }
}

/// Reads an answer that has come whole.
///
/// # Errors
/// It is none.
pub(super) fn read(bytes: &[u8]) -> Result<Answer<'_>, Unreadable> {
    let (line, start) = line(bytes)?.ok_or(Unreadable)?;
    let letters = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    match letters {
        b"VA" => {
            let length = value_length(line)?.ok_or(Unreadable)?;
            let value = bytes.get(start..start + length).ok_or(Unreadable)?;
            Ok(Answer::Value(value))
        }
        b"HD" => Ok(Answer::Done),
        b"NS" | b"EX" => Ok(Answer::NotStored),
        b"EN" | b"NF" => Ok(Answer::Nothing),
        b"MN" => Ok(Answer::NoOp),
        b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => Ok(Answer::Error(line)),
        _ => Err(Unreadable),
    }
}
