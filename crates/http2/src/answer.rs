//! An answer of HTTP/1.1 as one of HTTP/2: its head as a head, and its content without the framing.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use http::{Response, StatusCode};
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::response::has_no_content;

/// Most bytes of a head. Of lines there may be as many as these hold: whoever took an application's
/// has counted them, and what is added here is to find room.
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
    pub(crate) fn head(&mut self, bytes: &[u8]) -> Result<(usize, Option<Response<()>>), Broken> {
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
        while let Some((length, head)) = head_of(&all[at..])? {
            at += length;
            let status = head.status();
            match status.as_u16() {
                // To another protocol, which nobody asked for.
                101 => return Err(Broken),
                100..200 => continue,
                status => self.stage = content_of(&head, self.to_head || has_no_content(status))?,
            }
            return Ok((at - before, Some(response(head))));
        }
        if all.len() - at > HEAD_MAX {
            return Err(Broken);
        }
        self.stage = Stage::Head(all[at..].to_vec());
        Ok((bytes.len(), None))
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
const OF_THE_CONNECTION: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The head with which these bytes begin, if all of it is there, and how long it is. It is our own
/// server's: what follows the colons, and nothing else, may be somebody's.
fn head_of(bytes: &[u8]) -> Result<Option<(usize, Response<()>)>, Broken> {
    let mut response = Response::new(());
    let mut length = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = line.strip_suffix(b"\r\n") else {
            // The rest is still to come.
            return if line.ends_with(b"\n") {
                Err(Broken)
            } else {
                Ok(None)
            };
        };
        let is_first = length == 0;
        length += line.len();
        if is_first {
            let status = text
                .strip_prefix(b"HTTP/1.1 ")
                .and_then(|rest| rest.get(..3));
            let status = StatusCode::from_bytes(status.ok_or(Broken)?);
            *response.status_mut() = status.map_err(|_| Broken)?;
        } else if text.is_empty() {
            return Ok(Some((length, response)));
        } else {
            let colon = text.iter().position(|byte| *byte == b':').ok_or(Broken)?;
            let name = HeaderName::from_bytes(&text[..colon]).map_err(|_| Broken)?;
            let value = HeaderValue::from_bytes(text[colon + 1..].trim_ascii());
            let headers = response.headers_mut();
            let appended = headers.try_append(name, value.map_err(|_| Broken)?);
            appended.map_err(|_| Broken)?;
        }
    }
    Ok(None)
}

/// What follows a head: nothing, if it `has_none`.
fn content_of(head: &Response<()>, has_none: bool) -> Result<Stage, Broken> {
    let one = |name: HeaderName| -> Result<Option<&[u8]>, Broken> {
        let mut values = head.headers().get_all(name).iter();
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(Broken),
            (value, None) => Ok(value.map(HeaderValue::as_bytes)),
        }
    };
    let stage = match (one(TRANSFER_ENCODING)?, one(CONTENT_LENGTH)?) {
        (None, None) => Stage::UntilClose,
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => {
            Stage::Chunked(ChunkedDecoder::new(&UNBOUNDED))
        }
        (None, Some(length)) => {
            let length = std::str::from_utf8(length).map_err(|_| Broken)?;
            match length.parse().map_err(|_| Broken)? {
                0 => Stage::Over,
                length => Stage::Length(length),
            }
        }
        (Some(_), _) => return Err(Broken),
    };
    Ok(if has_none { Stage::Over } else { stage })
}

/// The head as HTTP/2 has it.
fn response(mut head: Response<()>) -> Response<()> {
    let headers = head.headers_mut();
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
    head
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
        let (mut head, mut content) = (None, Vec::new());
        for mut bytes in text.as_bytes().chunks(piece) {
            while !bytes.is_empty() {
                let taken = match answer.has_no_head() {
                    true => {
                        let (taken, found) = answer.head(bytes)?;
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
    fn a_head_may_have_as_many_lines_as_there_is_room_for() {
        let lines: String = (0..1000).map(|n| format!("X-{n}: {n}\r\n")).collect();
        let text = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n");
        for piece in [1000, text.len()] {
            let (_, fields, _, is_whole) = read(&text, piece, false).unwrap();
            assert!(is_whole && fields.contains("x-999: 999\n"));
        }
        let long = "x".repeat(HEAD_MAX);
        let text = format!("HTTP/1.1 200 OK\r\nA: {long}");
        assert_eq!(read(&text, text.len(), false), Err(Broken));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in [
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno field\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\n\r\n",
            "nothing\r\n\r\n",
        ] {
            assert_eq!(read(text, 100, false), Err(Broken), "{text}");
        }
    }
}
