//! Requests, in memcached's meta protocol (doc/protocol.txt of memcached, *Meta Commands*).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Most bytes of a key, as it is sent.
const KEY_MAX: usize = 250;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// The value.
    Get,
    /// That a value is stored.
    Store,
    /// That one is gone, or kept for another time.
    Change,
    /// That one is counted up or down.
    Count,
}

/// Why a request cannot be asked, in words.
pub(super) type Unfit = &'static str;

/// Appends the request that a call's words are: a verb, a key, and what stands beside it. Where it
/// cannot be asked nothing is appended.
///
/// # Errors
/// Why it cannot.
pub(super) fn write(words: &[&[u8]], out: &mut Vec<u8>) -> Result<Verb, Unfit> {
    let start = out.len();
    let written = write_unchecked(words, out);
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn write_unchecked(words: &[&[u8]], out: &mut Vec<u8>) -> Result<Verb, Unfit> {
    match words {
        [b"get", name] => {
            command(b"mg", name, None, out)?;
            out.extend_from_slice(b" v\r\n");
            Ok(Verb::Get)
        }
        [b"get", name, ttl] => {
            command(b"mg", name, None, out)?;
            number(b'T', seconds(ttl)?, out);
            out.extend_from_slice(b" v\r\n");
            Ok(Verb::Get)
        }
        [b"delete", name] => {
            command(b"md", name, None, out)?;
            out.extend_from_slice(b"\r\n");
            Ok(Verb::Change)
        }
        [b"touch", name, ttl] => {
            command(b"mg", name, None, out)?;
            number(b'T', seconds(ttl)?, out);
            out.extend_from_slice(b"\r\n");
            Ok(Verb::Change)
        }
        [verb @ (b"append" | b"prepend"), name, value] => {
            command(b"ms", name, Some(value.len()), out)?;
            out.extend_from_slice(if *verb == b"append" { b" MA" } else { b" MP" });
            data(value, out);
            Ok(Verb::Store)
        }
        [verb @ (b"set" | b"add" | b"replace"), name, value, ttl] => {
            command(b"ms", name, Some(value.len()), out)?;
            number(b'T', seconds(ttl)?, out);
            out.extend_from_slice(match *verb {
                b"add" => b" ME",
                b"replace" => b" MR",
                _ => b" MS",
            });
            data(value, out);
            Ok(Verb::Store)
        }
        [verb @ (b"incr" | b"decr"), name, by, initial, ttl] => {
            command(b"ma", name, None, out)?;
            out.extend_from_slice(if *verb == b"incr" { b" MI" } else { b" MD" });
            number(b'D', count(by)?, out);
            if !initial.is_empty() {
                number(b'N', seconds(ttl)?, out);
                number(b'J', count(initial)?, out);
            }
            out.extend_from_slice(b" v\r\n");
            Ok(Verb::Count)
        }
        _ => Err("it is none of the verbs"),
    }
}

/// Appends a command of two letters and its key, and the length of its value if it has one. A key
/// that no line can have goes as base64.
fn command(
    letters: &[u8],
    name: &[u8],
    length: Option<usize>,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let is_plain = name.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    let bytes = match is_plain {
        true => name.len(),
        false => name.len().div_ceil(3) * 4,
    };
    if name.is_empty() {
        return Err("its key is empty");
    }
    if bytes > KEY_MAX {
        return Err("its key is too long: 250 bytes, or 186 with blanks or control characters");
    }
    out.extend_from_slice(letters);
    out.push(b' ');
    match is_plain {
        true => out.extend_from_slice(name),
        false => out.extend_from_slice(STANDARD.encode(name).as_bytes()),
    }
    if let Some(length) = length {
        out.push(b' ');
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    }
    if !is_plain {
        out.extend_from_slice(b" b");
    }
    Ok(())
}

/// Appends a flag with a number.
fn number(flag: u8, number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b' ', flag]);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Ends a line whose value follows, and appends that.
fn data(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// For how long something is kept, as memcached has it.
pub(super) fn seconds(text: &[u8]) -> Result<i32, Unfit> {
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.parse().ok());
    number.ok_or("its `ttl` is no number of seconds")
}

/// How much is counted.
pub(super) fn count(text: &[u8]) -> Result<u64, Unfit> {
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.parse().ok());
    number.ok_or("its `by` or `initial` is no number from 0 on")
}
