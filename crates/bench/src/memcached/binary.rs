//! The binary protocol: requests to bytes, and bytes to pieces of answers, without I/O.
//!
//! ```text
//!   0       1        2            4        5        6         8             12       16    24
//!   magic   opcode   key length   extras   (zero)   status    body length   opaque   CAS   body
//! ```
//!
//! Numbers are big-endian, as memcached's `protocol_binary.txt` has them. A get names its key in
//! the answer (`GETK`); of several all but the last are quiet (`GETKQ`), and a `NOOP` ends them.

use super::items::Items;
use super::piece::{Piece, nonsense};

const HEADER: usize = 24;
const REQUEST: u8 = 0x80;
const ANSWER: u8 = 0x81;
const SET: u8 = 0x01;
const NOOP: u8 = 0x0a;
const GETK: u8 = 0x0c;
const GETKQ: u8 = 0x0d;
/// The longest text of an error.
const ERROR_MAX: usize = 2048;

/// Appends the write of a version of a key.
pub(super) fn write_set(key: u32, version: u32, items: &Items, out: &mut Vec<u8>) {
    packet(SET, &[0; 8], out, |out| {
        let from = out.len();
        items.write_key(key, out);
        let length = out.len() - from;
        items.write_value(key, version, out);
        length
    });
}

/// Appends a request for so many keys.
pub(super) fn write_get(
    keys: impl ExactSizeIterator<Item = u32>,
    items: &Items,
    out: &mut Vec<u8>,
) {
    let many = keys.len() > 1;
    for key in keys {
        packet(if many { GETKQ } else { GETK }, &[], out, |out| {
            let from = out.len();
            items.write_key(key, out);
            out.len() - from
        });
    }
    if many {
        packet(NOOP, &[], out, |_| 0);
    }
}

/// Appends a packet; `body` writes the key and what is behind it, and returns the key's length.
fn packet(opcode: u8, extras: &[u8], out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>) -> usize) {
    let start = out.len();
    out.resize(start + HEADER, 0);
    out.extend_from_slice(extras);
    let key = body(out);
    let length = (out.len() - start - HEADER) as u32;
    let header = &mut out[start..start + HEADER];
    (header[0], header[1], header[4]) = (REQUEST, opcode, extras.len() as u8);
    header[2..4].copy_from_slice(&(key as u16).to_be_bytes());
    header[8..12].copy_from_slice(&length.to_be_bytes());
}

/// Reads a piece of the answer to a request for `keys` keys (0: a write), as [`super::answers`] do.
pub(super) fn next(
    keys: usize,
    largest: usize,
    bytes: &[u8],
) -> Result<Option<(Piece<'_>, usize)>, String> {
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        // Another protocol's answer may be shorter than a header.
        return match bytes.first() {
            None | Some(&ANSWER) => Ok(None),
            _ => Err(nonsense(bytes)),
        };
    };
    let pair = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (opcode, key, extras, status) = (header[1], pair(2), header[4], pair(6));
    let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let front = usize::from(extras) + usize::from(key);
    if header[0] != ANSWER || front > body {
        return Err(nonsense(header));
    }
    if body - front > largest.max(ERROR_MAX) {
        let header = nonsense(header);
        return Err(format!("{header}: longer than any value stored"));
    }
    let length = HEADER + body;
    let Some(body) = bytes.get(HEADER..length) else {
        return Ok(None);
    };
    let (front, value) = body.split_at(front);
    let key = &front[usize::from(extras)..];
    let piece = match (keys, opcode, status) {
        (0, SET, 0) => Piece::Stored,
        (1, GETK, 0) | (2.., GETKQ, 0) => Piece::Value { key, value },
        (1, GETK, 1) | (2.., NOOP, 0) => Piece::End,
        (0, SET, _) | (1, GETK, _) | (2.., GETKQ, _) => Piece::Refused {
            line: value,
            goes_on: true,
        },
        _ => return Err(nonsense(header)),
    };
    Ok(Some((piece, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(opcode: u8, status: u16, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![ANSWER, opcode];
        bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[extras.len() as u8, 0]);
        bytes.extend_from_slice(&status.to_be_bytes());
        let length = (extras.len() + key.len() + value.len()) as u32;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.resize(HEADER, 0);
        [&bytes, extras, key, value].concat()
    }

    #[test]
    fn pieces() {
        let (key, value): (&[u8], &[u8]) = (b"k1", b"value");
        let hit = answer(GETK, 0, &[0; 4], key, value);
        let piece = Piece::Value { key, value };
        assert_eq!(next(1, 9, &hit), Ok(Some((piece, HEADER + 11))));
        for end in 0..hit.len() {
            assert_eq!(next(1, 9, &hit[..end]), Ok(None), "{end}");
        }
        for (keys, bytes, piece) in [
            (1, answer(GETK, 1, &[], key, b""), Piece::End),
            (2, answer(NOOP, 0, &[], b"", b""), Piece::End),
            (0, answer(SET, 0, &[], b"", b""), Piece::Stored),
            (
                0,
                answer(SET, 0x82, &[], b"", b"Out of memory"),
                Piece::Refused {
                    line: b"Out of memory",
                    goes_on: true,
                },
            ),
        ] {
            let length = bytes.len();
            assert_eq!(next(keys, 9, &bytes), Ok(Some((piece, length))));
        }
        for (keys, bytes) in [
            (0, hit.clone()),
            (2, hit),
            (1, answer(SET, 0, &[], b"", b"")),
            (1, answer(GETK, 0, &[], key, &[0; ERROR_MAX + 1])),
            (1, b"HTTP/1.1 400 Bad Request\r\n".to_vec()),
            (1, b"END\r\n".to_vec()),
        ] {
            assert!(next(keys, 9, &bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }
}
