//! How the end of a body is told (RFC 9112, section 6).
//!
//! A body in pieces whose length is not known when it begins may still be whole before anything of
//! it is sent. Until then its framing is open: its head says that it comes in chunks, and its bytes
//! follow as they are.
//!
//! ```text
//!   open:       ... Transfer-Encoding: chunked\r\n ... \r\n\r\n bytes
//!   whole:      ... Content-Length:         12\r\n ... \r\n\r\n bytes
//!   to be sent: ... Transfer-Encoding: chunked\r\n ... \r\n\r\n c\r\n bytes \r\n
//! ```

use crate::answer::AnswerShape;
use rhythm_protocol::http::response::{CHUNKED, has_no_content};
use std::io::Write;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length, of which so many bytes are left.
    Length(u64),
    /// By its length if it is whole before anything of it is sent, else in chunks.
    Open(Open),
    /// In chunks.
    Chunked,
    /// By the connection's end: to a client of HTTP/1.0, which knows no chunks.
    Close,
    /// There is none, whatever is appended: an answer to `HEAD`, or of a status without content.
    None,
}

/// Where an answer whose framing is open lies in the bytes that are to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// Where the line of its head begins that tells of chunks.
    pub(crate) line: usize,
    /// Where its body begins.
    pub(crate) body: usize,
}

impl Framing {
    /// How a body of this length, if that is known, is framed.
    pub(crate) fn of(status: u16, length: Option<u64>, shape: AnswerShape) -> Framing {
        match length {
            _ if shape.head_only || has_no_content(status) => Framing::None,
            Some(length) => Framing::Length(length),
            None if shape.http10 => Framing::Close,
            None => Framing::Open(Open::default()),
        }
    }

    /// Appends a piece of the body.
    pub(crate) fn write(self, piece: &[u8], out: &mut Vec<u8>) {
        match self {
            Framing::None => {}
            Framing::Length(_) | Framing::Close | Framing::Open(_) => out.extend_from_slice(piece),
            // An empty chunk would be the last.
            Framing::Chunked if piece.is_empty() => {}
            Framing::Chunked => {
                write_hex(piece.len(), out);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Bytes that it is open for move by so much, from the front of where they were kept.
    pub(crate) fn moved(&mut self, by: usize) {
        if let Framing::Open(open) = self {
            open.line += by;
            open.body += by;
        }
    }

    /// What there is of the body is to be sent before it is whole: if its framing is open, it comes
    /// in chunks, and this is the first.
    pub(crate) fn decide(&mut self, out: &mut Vec<u8>) {
        if let Framing::Open(open) = *self {
            *self = Framing::Chunked;
            let body = out.split_off(open.body);
            self.write(&body, out);
        }
    }

    /// The body is whole: appends what ends it, or tells its length in the head if it is open.
    pub(crate) fn end(self, out: &mut Vec<u8>) {
        match self {
            Framing::Length(_) | Framing::Close | Framing::None => {}
            Framing::Chunked => out.extend_from_slice(b"0\r\n\r\n"),
            Framing::Open(open) => {
                let length = out.len() - open.body;
                let mut line = &mut out[open.line..][..CHUNKED.len()];
                assert_eq!(line, CHUNKED, "the line is where it was written");
                // White space before a value means nothing (RFC 9112, section 5.1).
                let told = write!(line, "Content-Length: {length:10}\r\n");
                told.expect("what lies in memory is shorter than ten gigabytes");
            }
        }
    }
}

fn write_hex(number: usize, out: &mut Vec<u8>) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
    let digit = |at: u32| b"0123456789abcdef"[number >> (4 * at) & 15];
    out.extend((0..digits).rev().map(digit));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_chunks_and_an_empty_one_does_not_end_the_body() {
        let mut out = Vec::new();
        for piece in [&b"hello"[..], b"", &[b'x'; 17]] {
            Framing::Chunked.write(piece, &mut out);
        }
        Framing::Chunked.end(&mut out);
        let expected = b"5\r\nhello\r\n11\r\nxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n";
        assert_eq!(out, expected);
        for (number, text) in [(1, "1"), (16, "10"), (0xabcde, "abcde")] {
            let mut out = Vec::new();
            write_hex(number, &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn an_open_body_is_told_by_its_length_or_comes_in_chunks() {
        let head = "before Transfer-Encoding: chunked\r\nA: b\r\n\r\n";
        for (pieces, decided_after, expected) in [
            (
                &["hello", "", " you"][..],
                3,
                "Content-Length:          9\r\nA: b\r\n\r\nhello you",
            ),
            (&[], 0, "Content-Length:          0\r\nA: b\r\n\r\n"),
            (
                &["hel", "lo", " you"],
                2,
                "Transfer-Encoding: chunked\r\nA: b\r\n\r\n5\r\nhello\r\n4\r\n you\r\n0\r\n\r\n",
            ),
            (
                &["hello"],
                0,
                "Transfer-Encoding: chunked\r\nA: b\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ),
        ] {
            let mut out = head.as_bytes().to_vec();
            let (line, body) = ("before ".len(), out.len());
            let mut framing = Framing::Open(Open { line, body });
            for (at, piece) in pieces.iter().enumerate() {
                if at == decided_after {
                    framing.decide(&mut out);
                }
                framing.write(piece.as_bytes(), &mut out);
            }
            framing.end(&mut out);
            let out = String::from_utf8(out).unwrap();
            assert_eq!(out, format!("before {expected}"), "{pieces:?}");
        }
    }
}
