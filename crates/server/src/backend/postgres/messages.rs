//! The messages of PostgreSQL's protocol, version 3 (its manual, *Frontend/Backend Protocol*): a
//! tag, a length that counts itself, and what follows it.

use crate::backend::wire::Unreadable;

/// Bytes of tag and length.
pub(super) const HEADER: usize = 5;

/// A message of the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) tag: u8,
    pub(super) body: &'a [u8],
}

/// The tag that a message begins with, and how many bytes follow its length; `None` where these
/// have not come.
///
/// # Errors
/// It is none.
pub(super) fn head(bytes: &[u8]) -> Result<Option<(u8, usize)>, Unreadable> {
    let Some(&[tag, ref length @ ..]) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    let length = length.checked_sub(HEADER - 1).ok_or(Unreadable)?;
    Ok(Some((tag, length)))
}

/// The first message and how many bytes it takes; `None` where its end has not come.
///
/// # Errors
/// It is none, or longer than this.
pub(super) fn first(
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Option<(Message<'_>, usize)>, Unreadable> {
    let Some((tag, length)) = head(bytes)? else {
        return Ok(None);
    };
    if length > bytes_max {
        return Err(Unreadable);
    }
    let body = bytes[HEADER..].get(..length);
    Ok(body.map(|body| (Message { tag, body }, HEADER + length)))
}

/// The messages of an answer that has come whole.
pub(super) fn all(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let (message, used) = first(bytes, bytes.len()).ok()??;
        bytes = &bytes[used..];
        Some(message)
    })
}

/// Takes a message apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Unreadable> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Unreadable> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Unreadable> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Unreadable> {
        self.array().map(u32::from_be_bytes)
    }

    /// A text, which a zero ends.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Unreadable> {
        let end = memchr::memchr(0, self.0).ok_or(Unreadable)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }
}

/// What the server says is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerError {
    /// The connection ends with it.
    pub(super) is_fatal: bool,
    /// Its SQLSTATE.
    pub(super) code: String,
    /// The server's function that says so: unlike the words, in no language.
    pub(super) routine: String,
    /// Which character of the statement it is about, from 1 on; 0 where that is not said.
    pub(super) position: usize,
    message: String,
    detail: String,
    hint: String,
}

/// What a value is quoted by, in the languages that the server may speak.
const QUOTES: &str = "\"'`\u{ab}\u{bb}\u{2018}\u{201a}\u{201c}\u{201e}\u{300c}\u{300e}";

impl ServerError {
    /// Reads an ErrorResponse.
    pub(super) fn read(body: &[u8]) -> Result<ServerError, Unreadable> {
        let mut error = ServerError::default();
        let mut fields = Fields(body);
        loop {
            let kind = fields.u8()?;
            if kind == 0 {
                return Ok(error);
            }
            let text = String::from_utf8_lossy(fields.text()?).into_owned();
            match kind {
                b'V' => error.is_fatal = matches!(&*text, "FATAL" | "PANIC"),
                b'C' => error.code = text,
                b'M' => error.message = text,
                b'D' => error.detail = text,
                b'H' => error.hint = text,
                b'R' => error.routine = text,
                b'P' => error.position = text.parse().unwrap_or_default(),
                _ => {}
            }
        }
    }

    /// What the server says, for whoever reads the log: of a rule that is broken without the rows
    /// that would break it, and of a value that is wrong without it: they may be nobody's but a
    /// user's.
    pub(super) fn in_words(&self) -> String {
        let has_value = self.code.starts_with("22");
        let message = match self.message.find(|byte| QUOTES.contains(byte)) {
            Some(begin) if has_value => format!("{}...", &self.message[..begin]),
            _ => self.message.clone(),
        };
        let mut words = format!("{message} (SQLSTATE {})", self.code);
        let has_row = self.code.starts_with("23");
        for (more, is_told) in [(&self.detail, !has_row && !has_value), (&self.hint, true)] {
            if is_told && !more.is_empty() {
                words += ": ";
                words += more;
            }
        }
        words
    }
}

/// Appends a message of the client's.
pub(super) fn message(tag: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    counted(out, 0, write);
}

/// Appends a length in 32 bits that counts so many bytes fewer than it and what follows it take.
fn counted(out: &mut Vec<u8>, fewer: usize, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - start - fewer) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a value, whose length counts it alone.
pub(super) fn value(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    counted(out, 4, write);
}

/// Appends a value that is none.
pub(super) fn null(out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::MAX.to_be_bytes());
}

/// Appends a text, which a zero ends.
pub(super) fn text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
    out.push(0);
}

/// Appends a StartupMessage with these parameters.
pub(super) fn startup<'p>(
    parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
    out: &mut Vec<u8>,
) {
    counted(out, 0, |out| {
        // Version 3.0.
        out.extend_from_slice(&(3_u32 << 16).to_be_bytes());
        for (name, given) in parameters {
            text(name.as_bytes(), out);
            text(given.as_bytes(), out);
        }
        out.push(0);
    });
}

/// Appends a Parse of a statement that `write` writes, under a name, with arguments of these types.
pub(super) fn parse(
    name: &[u8],
    types: impl ExactSizeIterator<Item = u32>,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    message(b'P', out, |out| {
        text(name, out);
        write(out);
        out.push(0);
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.for_each(|kind| out.extend_from_slice(&kind.to_be_bytes()));
    });
}

/// Appends a Describe or a Close of a prepared statement.
pub(super) fn of_statement(tag: u8, name: &[u8], out: &mut Vec<u8>) {
    message(tag, out, |out| {
        out.push(b'S');
        text(name, out);
    });
}

/// Appends a Bind of a prepared statement's arguments, which `write` appends as values in text, and
/// an Execute, of which so many rows are wanted at most, or of 0 all.
pub(super) fn execute(
    name: &[u8],
    arguments: usize,
    rows_max: u32,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    message(b'B', out, |out| {
        // To the portal without a name.
        text(b"", out);
        text(name, out);
        // All arguments are texts, and so are all cells.
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(arguments as u16).to_be_bytes());
        write(out);
        out.extend_from_slice(&[0, 0]);
    });
    message(b'E', out, |out| {
        text(b"", out);
        out.extend_from_slice(&rows_max.to_be_bytes());
    });
}

/// Appends a Query: a statement that is done when the message has come whole, a Sync included.
pub(super) fn query(statement: &[u8], out: &mut Vec<u8>) {
    message(b'Q', out, |out| text(statement, out));
}

/// Appends a Sync: what fails before it fails nothing behind it.
pub(super) fn sync(out: &mut Vec<u8>) {
    message(b'S', out, |_| {});
}
