//! An answer of HTTP/1.1 as one of HTTP/2: its head as a head, and its content without the framing.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Response, StatusCode};
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::client::{ResponseFraming, ResponseHead, parse_response};
use rhythm_protocol::http::head::Progress;

/// Most bytes of a head.
const HEAD_MAX: usize = 64 * 1024;

/// What was given is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Where an answer stands.
#[derive(Debug)]
enum Stage {
    /// What there is of its head.
    Head(Vec<u8>),
    /// So many bytes of content follow.
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
    Over,
}

/// One answer, as its bytes are given.
#[derive(Debug)]
pub(crate) struct Answer {
    stage: Stage,
    /// It answers HEAD: no content follows.
    to_head: bool,
}

impl Answer {
    pub(crate) fn new(to_head: bool) -> Answer {
        let stage = Stage::Head(Vec::new());
        Answer { stage, to_head }
    }

    /// Whether its head is still to come.
    pub(crate) fn has_no_head(&self) -> bool {
        matches!(self.stage, Stage::Head(_))
    }

    /// Whether its content comes in chunks.
    pub(crate) fn is_chunked(&self) -> bool {
        matches!(self.stage, Stage::Chunked(_))
    }

    /// Whether all of it was given.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// The connection is closed. Whether the answer is whole with that.
    pub(crate) fn close(&mut self) -> bool {
        if matches!(self.stage, Stage::UntilClose) {
            self.stage = Stage::Over;
        }
        self.is_over()
    }

    /// Takes bytes of the head: how many, and the head once it is whole. Interim ones (1xx) are
    /// left out: what they are for is h2's business, or settled here.
    ///
    /// # Errors
    /// Where it is none.
    pub(crate) fn head(
        &mut self,
        bytes: &[u8],
        parsed: &mut ResponseHead,
    ) -> Result<(usize, Option<Response<()>>), Broken> {
        let Stage::Head(held) = &mut self.stage else {
            return Ok((0, None));
        };
        let before = held.len();
        let mut at = 0;
        // Most often it is given whole, and nothing is held.
        let mut joined = std::mem::take(held);
        let all = match before {
            0 => bytes,
            _ => {
                joined.extend_from_slice(bytes);
                &joined
            }
        };
        loop {
            parsed.clear();
            match parse_response(parsed, &all[at..], HEAD_MAX, self.to_head) {
                Err(_) => return Err(Broken),
                Ok(Progress::Partial) => {
                    self.stage = Stage::Head(all[at..].to_vec());
                    return Ok((bytes.len(), None));
                }
                // To another protocol, which nobody asked for.
                Ok(Progress::Complete { .. }) if parsed.status() == 101 => return Err(Broken),
                Ok(Progress::Complete { head_len }) if parsed.status() < 200 => at += head_len,
                Ok(Progress::Complete { head_len }) => {
                    self.stage = match parsed.framing() {
                        ResponseFraming::None | ResponseFraming::Length(0) => Stage::Over,
                        ResponseFraming::Length(length) => Stage::Length(length),
                        ResponseFraming::Chunked => Stage::Chunked(ChunkedDecoder::new(&UNBOUNDED)),
                        ResponseFraming::UntilClose => Stage::UntilClose,
                    };
                    let response = response(parsed, &all[at..at + head_len])?;
                    return Ok((at + head_len - before, Some(response)));
                }
            }
        }
    }

    /// Takes bytes of the content, at most `most`: how many, and what they are without framing.
    ///
    /// # Errors
    /// Where there are more than the head has said, or chunks are malformed.
    pub(crate) fn content(&mut self, bytes: &[u8], most: usize) -> Result<(usize, Bytes), Broken> {
        let given = &bytes[..bytes.len().min(most)];
        let content = match &mut self.stage {
            Stage::Head(_) => return Err(Broken),
            Stage::Over if given.is_empty() => Bytes::new(),
            Stage::Over => return Err(Broken),
            Stage::UntilClose => Bytes::copy_from_slice(given),
            Stage::Length(left) => {
                *left = left.checked_sub(given.len() as u64).ok_or(Broken)?;
                if *left == 0 {
                    self.stage = Stage::Over;
                }
                Bytes::copy_from_slice(given)
            }
            Stage::Chunked(decoder) => {
                let mut content = Vec::with_capacity(given.len());
                let decoded = decoder.decode(given, &mut content).map_err(|_| Broken)?;
                if decoded.consumed < given.len() {
                    return Err(Broken);
                }
                if decoded.done {
                    self.stage = Stage::Over;
                }
                content.into()
            }
        };
        Ok((given.len(), content))
    }
}

/// Our own chunks, of any number.
const UNBOUNDED: ChunkLimits = ChunkLimits {
    body_max: u64::MAX,
    extensions_max: 1024,
    trailers_max: 8 * 1024,
};

/// The fields that HTTP/2 has no place for (RFC 9113, section 8.2.2).
fn is_of_the_connection(name: &HeaderName) -> bool {
    *name == CONNECTION
        || *name == TRANSFER_ENCODING
        || *name == UPGRADE
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

fn response(head: &ResponseHead, bytes: &[u8]) -> Result<Response<()>, Broken> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status()).map_err(|_| Broken)?;
    let headers = response.headers_mut();
    headers.reserve(head.headers().len());
    for header in head.headers() {
        let name = HeaderName::from_bytes(header.name.of(bytes)).map_err(|_| Broken)?;
        let value = HeaderValue::from_bytes(header.value.of(bytes)).map_err(|_| Broken)?;
        if !is_of_the_connection(&name) {
            headers.append(name, value);
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status, the fields and the content of an answer given in pieces of so many bytes.
    fn read(
        text: &str,
        piece: usize,
        to_head: bool,
    ) -> Result<(u16, String, Vec<u8>, bool), Broken> {
        let mut answer = Answer::new(to_head);
        let mut parsed = ResponseHead::new();
        let (mut head, mut content) = (None, Vec::new());
        for mut bytes in text.as_bytes().chunks(piece) {
            while !bytes.is_empty() {
                let taken = match answer.has_no_head() {
                    true => {
                        let (taken, found) = answer.head(bytes, &mut parsed)?;
                        head = head.or(found);
                        taken
                    }
                    false => {
                        let (taken, more) = answer.content(bytes, 3)?;
                        content.extend_from_slice(&more);
                        taken
                    }
                };
                bytes = &bytes[taken..];
            }
        }
        let is_whole = answer.close();
        let head = head.ok_or(Broken)?;
        let fields = head.headers().iter();
        let fields = fields.map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
        Ok((head.status().as_u16(), fields.collect(), content, is_whole))
    }

    #[test]
    fn answers_are_the_same_however_they_are_cut() {
        let cases = [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\nConnection: close\r\n\r\nhello",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n\
                 5\r\nhello\r\n0\r\n\r\n",
                true,
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\nhello",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nA: b\r\n\r\nhello",
                false,
            ),
        ];
        for (text, is_whole) in cases {
            for piece in 1..=text.len() {
                let (status, fields, content, whole) = read(text, piece, false).unwrap();
                assert_eq!((status, whole), (200, is_whole), "{text} by {piece}");
                assert_eq!(content, b"hello");
                assert!(fields.ends_with("a: b\n"), "{fields}");
                assert!(
                    !fields.contains("connection") && !fields.contains("transfer"),
                    "{fields}"
                );
            }
        }
    }

    #[test]
    fn what_has_no_content_is_over_with_its_head() {
        for (text, to_head) in [
            ("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", false),
            ("HTTP/1.1 204 No Content\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true),
        ] {
            let (_, _, content, is_whole) = read(text, 7, to_head).unwrap();
            assert!(is_whole && content.is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in [
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
            "nothing\r\n\r\n",
        ] {
            assert_eq!(read(text, 100, false), Err(Broken), "{text}");
        }
    }
}
