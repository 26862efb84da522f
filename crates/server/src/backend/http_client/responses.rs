//! Takes HTTP responses out of a connection's bytes, however those were split.
//!
//! A body that came whole and at once is given out where it lies in the input; anything else is
//! gathered first.

use super::super::wire::Unreadable;
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::client::{ResponseFraming, ResponseHead, parse_response};
use rhythm_protocol::http::head::Progress;

/// What a response may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Most bytes of its head.
    pub head_max: usize,
    /// Most bytes of its body.
    pub body_max: usize,
}

impl Default for ResponseLimits {
    fn default() -> ResponseLimits {
        ResponseLimits {
            head_max: 16 * 1024,
            body_max: 1024 * 1024,
        }
    }
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Response<'a> {
    pub(in super::super) status: u16,
    /// The connection goes on after it.
    pub(in super::super) keep_alive: bool,
    pub(in super::super) body: &'a [u8],
}

/// What comes next.
#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    /// So many bytes of the body.
    Length(usize),
    Chunked(ChunkedDecoder),
    /// The body, until the connection ends.
    UntilClose,
}

/// Reads a connection's responses one after the other.
#[derive(Debug, Default)]
pub struct Responses {
    state: State,
    head: ResponseHead,
    /// The beginning of a head.
    gathered: Vec<u8>,
    /// The beginning of a body.
    body: Vec<u8>,
}

impl Responses {
    /// Reads on and gives how many bytes of `input` are done with, and a response if that completed
    /// one. Without one all of the input is done with. The connection's bytes are to be given in
    /// order and each once.
    pub(in super::super) fn next<'a>(
        &'a mut self,
        input: &'a [u8],
        limits: &ResponseLimits,
    ) -> Result<(usize, Option<Response<'a>>), Unreadable> {
        let mut at = 0;
        while let State::Head = self.state {
            if at == input.len() {
                return Ok((at, None));
            }
            match self.read_head(&input[at..], limits)? {
                Some(used) => at += used,
                None => return Ok((input.len(), None)),
            }
        }
        let rest = &input[at..];
        match &mut self.state {
            State::Length(left) => {
                if rest.len() < *left {
                    *left -= rest.len();
                    self.body.extend_from_slice(rest);
                    return Ok((input.len(), None));
                }
                let (body, _) = rest.split_at(*left);
                at += body.len();
                self.state = State::Head;
                if self.body.is_empty() {
                    return Ok((at, Some(response(&self.head, body))));
                }
                self.body.extend_from_slice(body);
            }
            State::Chunked(decoder) => {
                let decoded = (decoder.decode(rest, &mut self.body)).map_err(|_| Unreadable)?;
                if !decoded.done {
                    return Ok((input.len(), None));
                }
                at += decoded.consumed;
                self.state = State::Head;
            }
            State::UntilClose => {
                if rest.len() > limits.body_max - self.body.len() {
                    return Err(Unreadable);
                }
                self.body.extend_from_slice(rest);
                return Ok((input.len(), None));
            }
            State::Head => return Ok((at, None)),
        }
        Ok((at, Some(response(&self.head, &self.body))))
    }

    /// The connection ended in order: the answer that this completes, if there is one.
    pub(in super::super) fn finish(&mut self) -> Option<Response<'_>> {
        match std::mem::take(&mut self.state) {
            State::UntilClose => Some(response(&self.head, &self.body)),
            _ => None,
        }
    }

    /// Reads on in a head; gives how many bytes belonged to it once it is complete.
    fn read_head(
        &mut self,
        input: &[u8],
        limits: &ResponseLimits,
    ) -> Result<Option<usize>, Unreadable> {
        let before = self.gathered.len();
        // Never more than can be a head, whatever came with it.
        let piece = &input[..input.len().min(limits.head_max + 1 - before)];
        let bytes = if before == 0 {
            piece
        } else {
            self.gathered.extend_from_slice(piece);
            &self.gathered
        };
        let progress = parse_response(&mut self.head, bytes, limits.head_max, false);
        match progress.map_err(|_| Unreadable)? {
            Progress::Partial => {
                if before == 0 {
                    self.gathered.extend_from_slice(piece);
                }
                Ok(None)
            }
            Progress::Complete { head_len } => {
                self.gathered.clear();
                self.body.clear();
                self.state = self.body_state(limits)?;
                Ok(Some(head_len - before))
            }
        }
    }

    /// What follows the head.
    fn body_state(&self, limits: &ResponseLimits) -> Result<State, Unreadable> {
        match self.head.status() {
            // The other side would speak another protocol now; nobody asked it to.
            101 => return Err(Unreadable),
            // The answer itself is still to come (RFC 9110, section 15.2).
            100..=199 => return Ok(State::Head),
            _ => {}
        }
        Ok(match self.head.framing() {
            ResponseFraming::None => State::Length(0),
            ResponseFraming::Length(length) => State::Length(
                (usize::try_from(length).ok())
                    .filter(|length| *length <= limits.body_max)
                    .ok_or(Unreadable)?,
            ),
            ResponseFraming::Chunked => State::Chunked(ChunkedDecoder::new(&ChunkLimits {
                body_max: limits.body_max as u64,
                ..ChunkLimits::default()
            })),
            ResponseFraming::UntilClose => State::UntilClose,
        })
    }
}

fn response<'a>(head: &ResponseHead, body: &'a [u8]) -> Response<'a> {
    Response {
        status: head.status(),
        keep_alive: head.keep_alive(),
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ResponseLimits = ResponseLimits {
        head_max: 100,
        body_max: 12,
    };

    type Read = Result<Vec<(u16, bool, Vec<u8>)>, Unreadable>;

    /// What is read when the input comes in these pieces and then the connection ends.
    fn read(pieces: &[&[u8]]) -> Read {
        let mut reader = Responses::default();
        let mut answers = Vec::new();
        let mut keep = |a: Response<'_>| answers.push((a.status, a.keep_alive, a.body.to_vec()));
        for piece in pieces {
            let mut piece = *piece;
            loop {
                let (used, answer) = reader.next(piece, &LIMITS)?;
                piece = &piece[used..];
                let Some(answer) = answer else {
                    assert!(piece.is_empty());
                    break;
                };
                keep(answer);
            }
        }
        if let Some(answer) = reader.finish() {
            keep(answer);
        }
        Ok(answers)
    }

    fn at_every_split(input: &[u8]) -> Read {
        let whole = read(&[input]);
        for split in 0..=input.len() {
            let (a, b) = input.split_at(split);
            assert_eq!(read(&[a, b]), whole, "split at {split}");
        }
        let bytes: Vec<_> = input.chunks(1).collect();
        assert_eq!(read(&bytes), whole, "byte by byte");
        whole
    }

    #[test]
    fn answers_are_the_same_however_split() {
        let input = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHTTP/1.1 200\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n\
            HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\n9;x=y\r\n123456789\r\n0\r\nA: b\r\n\r\n\
            HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n\
            HTTP/1.0 200 OK\r\n\r\nto the end";
        let expected: [(u16, bool, &[u8]); 5] = [
            (200, true, b"HTTP/1.1 200"),
            (204, true, b""),
            (503, true, b"abc123456789"),
            (200, false, b""),
            (200, false, b"to the end"),
        ];
        assert_eq!(
            at_every_split(input),
            Ok(expected.map(|(s, k, b)| (s, k, b.to_vec())).to_vec())
        );
    }

    #[test]
    fn an_answer_cut_off_is_none() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        for end in 0..whole.len() {
            assert_eq!(read(&[&whole[..end]]), Ok(vec![]), "after {end} bytes");
        }
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n";
        assert_eq!(at_every_split(chunked), Ok(vec![]));
    }

    #[test]
    fn what_breaks_protocol_or_limits_is_unreadable() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100));
        for input in [
            "nonsense",
            "HTTP/1.1 101 Go\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n0123456789012",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n0123456789012\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\n\r\n0123456789012",
            &long,
        ] {
            assert_eq!(at_every_split(input.as_bytes()), Err(Unreadable), "{input}");
        }
    }
}
