//! Responses out of a connection's bytes.

use flate2::bufread::GzDecoder;
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::client::{ResponseFraming, ResponseHead, parse_response};
use rhythm_protocol::http::head::Progress;
use std::io::Read;
use std::ops::Range;

/// Most bytes of a response's head.
const HEAD_MAX: usize = 32 * 1024;

/// Most bytes of a response's content.
const BODY_MAX: u64 = 16 * 1024 * 1024;

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
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
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
    /// Forgets everything: the connection is a new one.
    pub(crate) fn clear(&mut self) {
        self.stored.clear();
        self.begin();
    }

    fn begin(&mut self) {
        self.head.clear();
        self.head_len = None;
        self.decoded.clear();
        self.chunks = None;
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
                Some(body) => inflate(&data[body])?,
                None => inflate(&self.decoded)?,
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
            ResponseFraming::Length(length) if length > BODY_MAX => {
                return Err("response too large".to_owned());
            }
            ResponseFraming::Length(length) => {
                let total = head_len + length as usize;
                (data.len() >= total).then_some(Whole {
                    total,
                    body: Some(head_len..total),
                })
            }
            ResponseFraming::UntilClose if content as u64 > BODY_MAX => {
                return Err("response too large".to_owned());
            }
            ResponseFraming::UntilClose => ended.then_some(Whole {
                total: data.len(),
                body: Some(head_len..data.len()),
            }),
            ResponseFraming::Chunked if content == 0 => None,
            ResponseFraming::Chunked => {
                let limits = ChunkLimits {
                    body_max: BODY_MAX,
                    ..ChunkLimits::default()
                };
                let (decoder, seen) =
                    (self.chunks).get_or_insert_with(|| (ChunkedDecoder::new(&limits), head_len));
                let decoded = decoder
                    .decode(&data[*seen..], &mut self.decoded)
                    .map_err(|error| error.to_string())?;
                *seen += decoded.consumed;
                decoded.done.then_some(Whole {
                    total: *seen,
                    body: None,
                })
            }
        };
        if whole.is_some() {
            (self.head_len, self.chunks) = (None, None);
        }
        Ok(whole)
    }
}

/// What a stream of gzip holds, which has nothing behind it.
pub(crate) fn inflate(stream: &[u8]) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let mut decoder = GzDecoder::new(stream);
    let read = decoder
        .by_ref()
        .take(BODY_MAX + 1)
        .read_to_end(&mut content);
    read.map_err(|error| format!("gzip: {error}"))?;
    match content.len() as u64 > BODY_MAX || !decoder.get_ref().is_empty() {
        true => Err("gzip: more than it should be".to_owned()),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contents of the responses in `bytes`, however they arrive.
    fn contents(bytes: &[u8], step: usize) -> Result<Vec<String>, String> {
        let mut reader = AnswerReader::default();
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
        let mut reader = AnswerReader::default();
        let data = b"HTTP/1.1 200 OK\r\n\r\nabc";
        assert_eq!(reader.next(data, false, false), Ok(None));
        let whole = Whole {
            total: data.len(),
            body: Some(19..22),
        };
        assert_eq!(reader.next(data, false, true), Ok(Some(whole)));
        // Not, though, for as long as the server likes.
        let mut endless = data.to_vec();
        endless.resize(20 + BODY_MAX as usize, b'x');
        let mut reader = AnswerReader::default();
        assert!(reader.next(&endless, false, false).is_err());
    }
}
