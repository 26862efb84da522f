//! How the end of a body is told (RFC 9112, section 6).

use crate::answer::AnswerShape;
use rhythm_protocol::http::response::has_no_content;

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length, of which so many bytes are left.
    Length(u64),
    /// In chunks.
    Chunked,
    /// By the connection's end: to a client of HTTP/1.0, which knows no chunks.
    Close,
    /// There is none, whatever is appended: an answer to `HEAD`, or of a status without content.
    None,
}

impl Framing {
    /// How a body of this length, if that is known, is framed.
    pub(crate) fn of(status: u16, length: Option<u64>, shape: AnswerShape) -> Framing {
        match length {
            _ if shape.head_only || has_no_content(status) => Framing::None,
            Some(length) => Framing::Length(length),
            None if shape.http10 => Framing::Close,
            None => Framing::Chunked,
        }
    }

    /// Appends a piece of the body.
    pub(crate) fn write(self, piece: &[u8], out: &mut Vec<u8>) {
        match self {
            Framing::None => {}
            Framing::Length(_) | Framing::Close => out.extend_from_slice(piece),
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

    /// What ends the body.
    pub(crate) fn end(self) -> &'static [u8] {
        match self {
            Framing::Chunked => b"0\r\n\r\n",
            Framing::Length(_) | Framing::Close | Framing::None => b"",
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
        out.extend_from_slice(Framing::Chunked.end());
        let expected = b"5\r\nhello\r\n11\r\nxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n";
        assert_eq!(out, expected);
        for (number, text) in [(1, "1"), (16, "10"), (0xabcde, "abcde")] {
            let mut out = Vec::new();
            write_hex(number, &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }
}
