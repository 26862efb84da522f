//! Answers of a server: bytes to what they say, without I/O.

use super::binary;
use super::options::Words;
use super::piece::{Piece, nonsense};
use memchr::memchr;

/// The longest line of an answer.
const LINE_MAX: usize = 2048;

/// Reads a piece of the answer in these words to a request for `keys` keys (0: a write), whose
/// values have at most `largest` bytes.
///
/// Returns it with its length, or `None` where it is not whole.
///
/// # Errors
/// The line, if it is no answer to this.
pub(super) fn next(
    words: Words,
    keys: usize,
    largest: usize,
    bytes: &[u8],
) -> Result<Option<(Piece<'_>, usize)>, String> {
    if words == Words::Binary {
        return binary::next(keys, largest, bytes);
    }
    let Some(end) = memchr(b'\n', &bytes[..bytes.len().min(LINE_MAX)]) else {
        return match bytes.len() {
            LINE_MAX.. => Err(nonsense(bytes)),
            _ => Ok(None),
        };
    };
    let Some(line) = bytes[..end].strip_suffix(b"\r") else {
        return Err(nonsense(&bytes[..end]));
    };
    let length = end + 1;
    let simple = match (words, keys, line) {
        // A miss names the key that was asked for, as memcached's do.
        (Words::Ascii, 1.., b"END")
        | (Words::Meta, 1, b"EN" | [b'E', b'N', b' ', ..])
        | (Words::Meta, 2.., b"MN") => Some(Piece::End),
        (Words::Ascii, 0, b"STORED") | (Words::Meta, 0, b"HD") => Some(Piece::Stored),
        _ => refused(line),
    };
    if let Some(piece) = simple {
        return Ok(Some((piece, length)));
    }
    let value = if keys > 0 { value(words, line) } else { None };
    let (key, size) = value.ok_or_else(|| nonsense(line))?;
    if size > largest {
        let line = nonsense(line);
        return Err(format!("{line}: longer than any value stored"));
    }
    let behind = &bytes[length..];
    if behind.len() < size + 2 {
        return Ok(None);
    }
    let (value, behind) = behind.split_at(size);
    if !behind.starts_with(b"\r\n") {
        let line = nonsense(line);
        return Err(format!("{line}: the value does not end where it says"));
    }
    Ok(Some((Piece::Value { key, value }, length + size + 2)))
}

/// The key and the length in the line before a value.
fn value(words: Words, line: &[u8]) -> Option<(&[u8], usize)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<usize>().ok();
    match (words, fields.next()?) {
        (Words::Ascii, b"VALUE") => {
            let key = fields.next()?;
            let _flags = number(fields.next()?)?;
            Some((key, number(fields.next()?)?))
        }
        (Words::Meta, b"VA") => {
            let size = number(fields.next()?)?;
            Some((fields.find_map(|flag| flag.strip_prefix(b"k"))?, size))
        }
        _ => None,
    }
}

fn refused(line: &[u8]) -> Option<Piece<'_>> {
    let goes_on = line.starts_with(b"SERVER_ERROR ");
    let is_error = goes_on || line == b"ERROR" || line.starts_with(b"CLIENT_ERROR ");
    is_error.then_some(Piece::Refused { line, goes_on })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces() {
        let key: &[u8] = b"a";
        let read = |words, keys, text: &'static str| next(words, keys, 9, text.as_bytes());
        let value = Piece::Value {
            key,
            value: b"\r\nEND",
        };
        let text = "VALUE a 0 5\r\n\r\nEND\r\nEND\r\n";
        assert_eq!(read(Words::Ascii, 1, text), Ok(Some((value, 20))));
        for end in 0..20 {
            assert_eq!(read(Words::Ascii, 1, &text[..end]), Ok(None), "{end}");
        }
        let value = Piece::Value { key, value: b"xy" };
        assert_eq!(
            read(Words::Meta, 1, "VA 2 ka\r\nxy\r\n"),
            Ok(Some((value, 13)))
        );
        for (words, keys, text, piece) in [
            (Words::Ascii, 3, "END\r\n", Piece::End),
            (Words::Meta, 1, "EN\r\n", Piece::End),
            (Words::Meta, 1, "EN ka\r\n", Piece::End),
            (Words::Meta, 2, "MN\r\n", Piece::End),
            (Words::Ascii, 0, "STORED\r\n", Piece::Stored),
            (Words::Meta, 0, "HD\r\n", Piece::Stored),
        ] {
            assert_eq!(read(words, keys, text), Ok(Some((piece, text.len()))));
        }
        let line = b"SERVER_ERROR out of memory";
        let piece = Piece::Refused {
            line,
            goes_on: true,
        };
        let text = "SERVER_ERROR out of memory\r\n";
        assert_eq!(read(Words::Ascii, 0, text), Ok(Some((piece, 28))));
        for (keys, text) in [
            (1, "HTTP/1.1 400 Bad Request\r\n"),
            (1, "END\n"),
            (1, "STORED\r\n"),
            (0, "END\r\n"),
            (0, "VALUE a 0 1\r\nx\r\n"),
            (1, "VALUE a 0 1\r\nxyz\r\n"),
            (1, "VALUE a 0 10\r\n"),
            (1, "VALUE a 0\r\n"),
        ] {
            assert!(read(Words::Ascii, keys, text).is_err(), "{text}");
        }
        assert!(next(Words::Meta, 1, 9, b"ENka\r\n").is_err());
        assert!(next(Words::Ascii, 1, 9, &[b'x'; LINE_MAX]).is_err());
    }
}
