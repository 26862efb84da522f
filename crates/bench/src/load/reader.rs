//! Responses out of a connection's bytes.

use flate2::bufread::GzDecoder;
use rhythm_protocol::http::body::{BodyError, ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::client::{ResponseError, ResponseFraming, ResponseHead, parse_response};
use rhythm_protocol::http::head::{HEADERS_CAPACITY, Progress};
use std::io::Read;
use std::ops::Range;

/// Most bytes of a response's head.
const HEAD_MAX: usize = 32 * 1024;

/// Most bytes of the content of a response that may be any.
pub(crate) const BODY_MAX: usize = 16 * 1024 * 1024;

/// A whole response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// How many bytes of input it took.
    pub(crate) total: usize,
    /// Where its content is in the input; `None` if it came in chunks, or was inflated, and is in
    /// [`AnswerReader::decoded`].
    pub(crate) body: Option<Range<usize>>,
}

/// The response being received.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    /// Most bytes of its content, with what frames it, and of what it is inflated to.
    body_max: usize,
    /// Input not yet used up, kept between reads.
    pub(crate) stored: Vec<u8>,
    /// The response's head.
    pub(crate) head: ResponseHead,
    /// Its length, once complete.
    head_len: Option<usize>,
    /// The content if it comes in chunks or compressed.
    pub(crate) decoded: Vec<u8>,
    /// Its decoder, and how many bytes of the input it has seen.
    chunks: Option<(ChunkedDecoder, usize)>,
}

impl AnswerReader {
    /// For responses with at most so many bytes of content.
    pub(crate) fn new(body_max: usize) -> AnswerReader {
        AnswerReader {
            body_max,
            stored: Vec::new(),
            head: ResponseHead::default(),
            head_len: None,
            decoded: Vec::new(),
            chunks: None,
        }
    }

    /// Forgets everything, memory that a large response took included: the connection is a new one.
    pub(crate) fn clear(&mut self) {
        *self = AnswerReader::new(self.body_max);
    }

    /// Whether nothing of a response has come yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.stored.is_empty() && self.head_len.is_none()
    }

    /// The response at the start of `data` if it is whole: all input since the end of the one
    /// before. `ended` says that no more will come. Content that is compressed is inflated.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn next(
        &mut self,
        data: &[u8],
        to_head: bool,
        ended: bool,
    ) -> Result<Option<Whole>, String> {
        let Some(mut whole) = self.next_as_sent(data, to_head, ended)? else {
            return Ok(None);
        };
        let is_gzip = |value: &[u8]| value.eq_ignore_ascii_case(b"gzip");
        if self.head.values(data, "content-encoding").any(is_gzip) {
            let inflated = match whole.body.clone() {
                // There is none to HEAD.
                Some(body) if body.is_empty() => Vec::new(),
                Some(body) => inflate_to(&data[body], self.body_max)?,
                None => inflate_to(&self.decoded, self.body_max)?,
            };
            (self.decoded, whole.body) = (inflated, None);
        }
        Ok(Some(whole))
    }

    /// The same, with its content as it was sent, out of its chunks.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn next_as_sent(
        &mut self,
        data: &[u8],
        to_head: bool,
        ended: bool,
    ) -> Result<Option<Whole>, String> {
        let head_len = match self.head_len {
            Some(head_len) => head_len,
            None => {
                if data.is_empty() {
                    return Ok(None);
                }
                self.decoded.clear();
                match parse_response(&mut self.head, data, HEAD_MAX, to_head) {
                    Ok(Progress::Complete { head_len }) => head_len,
                    Ok(Progress::Partial) => return Ok(None),
                    Err(ResponseError::HeadTooLarge) => {
                        return Err(format!(
                            "a head of more than {HEAD_MAX} bytes or {HEADERS_CAPACITY} headers, \
                             the most that is taken"
                        ));
                    }
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        self.head_len = Some(head_len);
        let content = data.len().saturating_sub(head_len);
        let whole = match self.head.framing() {
            ResponseFraming::None => Some(Whole {
                total: head_len,
                body: Some(head_len..head_len),
            }),
            ResponseFraming::Length(length) if length > self.body_max as u64 => {
                return Err(too_large(self.body_max));
            }
            ResponseFraming::Length(length) => {
                let total = head_len + length as usize;
                (data.len() >= total).then_some(Whole {
                    total,
                    body: Some(head_len..total),
                })
            }
            ResponseFraming::UntilClose => ended.then_some(Whole {
                total: data.len(),
                body: Some(head_len..data.len()),
            }),
            ResponseFraming::Chunked if content == 0 => None,
            ResponseFraming::Chunked => {
                let limits = ChunkLimits {
                    body_max: self.body_max as u64,
                    ..ChunkLimits::default()
                };
                let (decoder, seen) =
                    (self.chunks).get_or_insert_with(|| (ChunkedDecoder::new(&limits), head_len));
                let decoded = decoder.decode(&data[*seen..], &mut self.decoded).map_err(
                    |error| match error {
                        BodyError::TooLarge => too_large(self.body_max),
                        error => error.to_string(),
                    },
                )?;
                *seen += decoded.consumed;
                decoded.done.then_some(Whole {
                    total: *seen,
                    body: None,
                })
            }
        };
        // Small chunks are mostly what frames them, and all of it is kept.
        if whole.is_none() && content > self.body_max {
            return Err(too_large(self.body_max));
        }
        if whole.is_some() {
            (self.head_len, self.chunks) = (None, None);
        }
        Ok(whole)
    }
}

fn too_large(body_max: usize) -> String {
    format!("content of more than {body_max} bytes, the most that is taken")
}

/// What a stream of gzip holds, which has nothing behind it.
pub(crate) fn inflate(stream: &[u8]) -> Result<Vec<u8>, String> {
    inflate_to(stream, BODY_MAX)
}

fn inflate_to(stream: &[u8], body_max: usize) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let mut decoder = GzDecoder::new(stream);
    let read = decoder
        .by_ref()
        .take(body_max as u64 + 1)
        .read_to_end(&mut content);
    read.map_err(|error| format!("gzip: {error}"))?;
    match decoder.get_ref().is_empty() {
        _ if content.len() > body_max => Err(too_large(body_max)),
        false => Err("gzip: more than it should be".to_owned()),
        true => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    /// The contents of the responses in `bytes`, however they arrive.
    fn contents(bytes: &[u8], step: usize) -> Result<Vec<String>, String> {
        let mut reader = AnswerReader::new(BODY_MAX);
        let mut contents = Vec::new();
        for piece in bytes.chunks(step) {
            let mut data = std::mem::take(&mut reader.stored);
            data.extend_from_slice(piece);
            while let Some(whole) = reader.next(&data, false, false)? {
                let body = whole.body.map_or(&reader.decoded[..], |range| &data[range]);
                contents.push(String::from_utf8_lossy(body).into_owned());
                data.drain(..whole.total);
            }
            reader.stored = data;
        }
        Ok(contents)
    }

    #[test]
    fn responses_come_apart_however_they_arrive() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            2\r\nde\r\n1\r\nf\r\n0\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n\
            HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ng";
        for step in 1..=bytes.len() {
            assert_eq!(
                contents(bytes, step).unwrap(),
                ["abc", "def", "", "g"],
                "steps of {step}"
            );
        }
    }

    #[test]
    fn faults_are_told() {
        assert!(contents(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 9).is_err());
        assert!(
            contents(
                b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
                99
            )
            .is_err()
        );
        assert!(
            contents(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                99
            )
            .is_err()
        );
    }

    #[test]
    fn without_a_length_the_end_of_the_connection_ends_the_response() {
        let mut reader = AnswerReader::new(BODY_MAX);
        let data = b"HTTP/1.1 200 OK\r\n\r\nabc";
        assert_eq!(reader.next(data, false, false), Ok(None));
        let whole = Whole {
            total: data.len(),
            body: Some(19..22),
        };
        assert_eq!(reader.next(data, false, true), Ok(Some(whole)));
    }

    /// What is wrong with a response of this head and these pieces without end, and how much of it
    /// came until that was found.
    fn endless(head: &str, piece: &[u8], body_max: usize) -> (String, usize) {
        let mut reader = AnswerReader::new(body_max);
        let mut data = head.as_bytes().to_vec();
        loop {
            data.extend_from_slice(piece);
            match reader.next(&data, false, false) {
                Ok(whole) => assert!(whole.is_none() && data.len() < 1 << 20, "it has no end"),
                Err(why) => return (why, data.len()),
            }
        }
    }

    #[test]
    fn no_response_is_taken_for_as_long_as_the_server_likes() {
        const MAX: usize = 10_000;
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let kilobyte = [b"400\r\n", &[b'x'; 1024][..], b"\r\n"].concat();
        for (head, piece) in [
            ("HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 999][..]),
            ("HTTP/1.1 200 OK\r\nContent-Length: 10001\r\n\r\n", b"x"),
            (chunked, &kilobyte),
            // Hardly any content, and much of what frames it.
            (chunked, b"1\r\nx\r\n"),
        ] {
            let (why, taken) = endless(head, piece, MAX);
            assert!(why.contains("more than 10000 bytes"), "{why}");
            assert!(taken <= head.len() + MAX + piece.len(), "{taken}: {head}");
        }
        let line = [b"A: ", &[b'b'; 1000][..], b"\r\n"].concat();
        for piece in [&line, &b"A: b\r\n"[..], b"A"] {
            let (why, taken) = endless("HTTP/1.1 200 OK\r\n", piece, MAX);
            assert!(why.contains("a head of more than 32768 bytes"), "{why}");
            assert!(taken <= HEAD_MAX + piece.len(), "{taken}");
        }
    }

    #[test]
    fn what_is_inflated_has_the_same_bound() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&[b'x'; 10_001]).expect("memory");
        let stream = encoder.finish().expect("memory");
        assert_eq!(inflate(&stream).map(|content| content.len()), Ok(10_001));
        let length = stream.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n"
        );
        let (why, _) = endless(&head, &stream, 10_000);
        assert!(why.contains("more than 10000 bytes"), "{why}");
    }
}
