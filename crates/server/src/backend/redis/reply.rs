//! Replies, in RESP3 (protocol/RESP3.md of <https://github.com/redis/redis-specifications>):
//! values, of which some hold others.

use crate::backend::wire::Unreadable;

/// Most bytes of an answer.
pub(super) const ANSWER_MAX: usize = 1 << 20;

/// Most bytes of a line: of a header, or of a value that is none but its line.
const LINE_MAX: usize = 1 << 16;

/// A value that holds no others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Text(&'a [u8]),
    Int(i64),
    /// A double or a big number, as it is written.
    Number(&'a [u8]),
    Bool(bool),
    Error(&'a [u8]),
}

/// A value, or the beginning of one that holds others, which follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Scalar(Scalar<'a>),
    /// An array or a set of so many.
    List(usize),
    /// A map of so many values: keys, and behind each what it stands for.
    Map(usize),
    /// So many that are no part of the reply: what is told beside it.
    Beside(usize),
}

/// The first value, or the beginning of it, and how many bytes it takes; `None` where those have
/// not all come.
///
/// # Errors
/// It is none, or longer than this.
pub(super) fn token(
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Option<(Token<'_>, usize)>, Unreadable> {
    let Some((&kind, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    if !b"+-:$*_,#(!=%~>|".contains(&kind) {
        return Err(Unreadable);
    }
    let Some(line) = line(rest)? else {
        return Ok(None);
    };
    let used = 1 + line.len() + 2;
    let scalar = |scalar| Ok(Some((Token::Scalar(scalar), used)));
    let many = |token: fn(usize) -> Token<'static>, each: usize| {
        let count = number(line)?.checked_mul(each).ok_or(Unreadable)?;
        // Each takes three bytes at least.
        match count > bytes_max / 3 {
            true => Err(Unreadable),
            false => Ok(Some((token(count), used))),
        }
    };
    match kind {
        b'+' => scalar(Scalar::Text(line)),
        b'-' => scalar(Scalar::Error(line)),
        b':' => {
            let text = std::str::from_utf8(line).map_err(|_| Unreadable)?;
            scalar(Scalar::Int(text.parse().map_err(|_| Unreadable)?))
        }
        b'_' if line.is_empty() => scalar(Scalar::Null),
        b'$' | b'*' if line == b"-1" => scalar(Scalar::Null),
        b'#' => match line {
            b"t" => scalar(Scalar::Bool(true)),
            b"f" => scalar(Scalar::Bool(false)),
            _ => Err(Unreadable),
        },
        b',' | b'(' if !line.is_empty() => scalar(Scalar::Number(line)),
        b'$' | b'!' | b'=' => {
            let length = number(line)?;
            if length > bytes_max {
                return Err(Unreadable);
            }
            let Some((text, rest)) = bytes[used..].split_at_checked(length) else {
                return Ok(None);
            };
            let scalar = match kind {
                b'$' => Scalar::Text(text),
                b'!' => Scalar::Error(text),
                // Behind what it is written in: `txt:`, `mkd:`.
                _ => match text {
                    [_, _, _, b':', text @ ..] => Scalar::Text(text),
                    _ => return Err(Unreadable),
                },
            };
            match rest {
                [b'\r', b'\n', ..] => Ok(Some((Token::Scalar(scalar), used + length + 2))),
                [] | [b'\r'] => Ok(None),
                _ => Err(Unreadable),
            }
        }
        b'*' | b'~' => many(Token::List, 1),
        b'%' => many(Token::Map, 2),
        b'>' => many(Token::Beside, 1),
        b'|' => many(Token::Beside, 2),
        _ => Err(Unreadable),
    }
}

/// What stands before the first line's end; `None` where that has not come.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Unreadable> {
    let bytes = &bytes[..bytes.len().min(LINE_MAX)];
    match memchr::memchr2(b'\r', b'\n', bytes) {
        Some(at) => match &bytes[at..] {
            [b'\r', b'\n', ..] => Ok(Some(&bytes[..at])),
            [b'\r'] if bytes.len() < LINE_MAX => Ok(None),
            _ => Err(Unreadable),
        },
        None if bytes.len() < LINE_MAX => Ok(None),
        None => Err(Unreadable),
    }
}

/// A length or a count.
fn number(digits: &[u8]) -> Result<usize, Unreadable> {
    let is_number = (1..=10).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number);
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or(Unreadable)
}

/// How far a reply was looked at for its end.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Bytes of values that have come.
    at: usize,
    /// How many values are to come beyond the next.
    more: usize,
}

impl Scan {
    /// Where the first reply ends; `None` where its end has not come.
    ///
    /// # Errors
    /// It is none, or longer than this.
    pub(super) fn end(
        &mut self,
        bytes: &[u8],
        bytes_max: usize,
    ) -> Result<Option<usize>, Unreadable> {
        while let Some((token, used)) = token(&bytes[self.at..], bytes_max)? {
            self.at += used;
            let held = match token {
                Token::Beside(count) => {
                    self.more += count;
                    None
                }
                Token::Scalar(_) => Some(0),
                Token::List(count) | Token::Map(count) => Some(count),
            };
            match held {
                None => {}
                Some(0) if self.more == 0 => return Ok(Some(std::mem::take(self).at)),
                Some(held) => self.more = self.more + held - 1,
            }
            if self.at > bytes_max || self.more > bytes_max / 3 {
                return Err(Unreadable);
            }
        }
        Ok(None)
    }
}

/// The values of a reply that has come whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    /// The next that is a part of the reply.
    fn next(&mut self) -> Option<Token<'a>> {
        let mut beside = 0;
        loop {
            let (token, used) = token(self.0, usize::MAX).ok()??;
            self.0 = &self.0[used..];
            match token {
                Token::Beside(count) => beside += count,
                token if beside == 0 => return Some(token),
                Token::Scalar(_) => beside -= 1,
                Token::List(count) | Token::Map(count) => beside = beside + count - 1,
            }
        }
    }
}

/// An error that the server answers: a word that says what kind it is of, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerError<'a>(pub(super) &'a [u8]);

/// Most bytes that are told of an error.
const TOLD_MAX: usize = 200;

impl ServerError<'_> {
    /// Its first word.
    pub(super) fn code(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == b' ');
        &self.0[..end.unwrap_or(self.0.len())]
    }

    /// What follows it.
    pub(super) fn message(&self) -> &[u8] {
        self.0[self.code().len()..].trim_ascii()
    }

    /// What the server says, for whoever reads the log: without values, which may be nobody's but
    /// a user's.
    pub(super) fn in_words(&self) -> String {
        let end = memchr::memmem::find(self.0, b", with args").unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end.min(TOLD_MAX)]).into_owned()
    }
}
