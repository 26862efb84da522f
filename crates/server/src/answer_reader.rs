//! One answer of another server, out of bytes however they are split.
//!
//! ```text
//!   Head ---> (1xx: Head) ---> Length | Chunked | UntilClose ---> Over
//!                 \--> Raw, where another protocol was asked for (101)
//! ```

use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::client::{ResponseFraming, ResponseHead, parse_response};
use rhythm_protocol::http::head::{Known, Progress};

/// The most bytes of an answer's head.
pub(crate) const HEAD_BYTES_MAX: usize = 32 << 10;

/// The most answers before the one that is waited for: each takes time to find, and who sends one
/// after the other has nothing to say.
const INTERIM_MAX: u32 = 256;

/// An answer that is none, or a part of one that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    /// What another protocol says.
    Raw,
    Over,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    state: State,
    head: Box<ResponseHead>,
    /// The head's bytes, as far as they came.
    head_bytes: Vec<u8>,
    /// Answers that came before it (1xx).
    interim: u32,
    /// It has no content, and its head tells of some.
    tells_of_more: bool,
    to_head: bool,
    asks_upgrade: bool,
    /// Something came.
    is_touched: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The answer's head is there.
    Head,
    /// The other server speaks the other protocol from now on: its head is there.
    Switch,
    /// So much of the content.
    Piece(&'a [u8]),
    /// The answer is over.
    End,
    /// Nothing before more comes.
    Nothing,
}

impl AnswerReader {
    /// Of the answer to a request that is to HEAD, or asks for another protocol.
    pub(crate) fn new(to_head: bool, asks_upgrade: bool) -> AnswerReader {
        AnswerReader {
            state: State::Head,
            head: Box::default(),
            head_bytes: Vec::new(),
            interim: 0,
            tells_of_more: false,
            to_head,
            asks_upgrade,
            is_touched: false,
        }
    }

    /// Whether anything came of an answer.
    pub(crate) fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// The head, with the bytes that its offsets are of.
    pub(crate) fn head(&self) -> (&ResponseHead, &[u8]) {
        (&self.head, &self.head_bytes)
    }

    /// The length that the head tells of the content, which does not follow one to HEAD.
    pub(crate) fn length(&self) -> Option<u64> {
        let length = self.head.known(Known::ContentLength)?;
        let length = std::str::from_utf8(length.of(&self.head_bytes)).ok()?;
        length.parse().ok()
    }

    /// The head is not needed any more.
    pub(crate) fn forget_head(&mut self) {
        self.head_bytes = Vec::new();
    }

    /// Whether the connection can be asked again once the answer is over. Some servers send the
    /// content that an answer without content tells of all the same, perhaps only when they are
    /// asked again: it would be the answer to that.
    pub(crate) fn keeps_alive(&self) -> bool {
        matches!(self.state, State::Over) && self.head.keep_alive() && !self.tells_of_more
    }

    /// The connection has ended in order. Whether the answer is whole with that.
    pub(crate) fn ended(&mut self) -> bool {
        let is_whole = matches!(self.state, State::UntilClose | State::Raw);
        if is_whole {
            self.state = State::Over;
        }
        is_whole
    }

    /// Reads on: gives how many bytes are done with, and what they were. `decoded` is where pieces
    /// lie that came in chunks.
    ///
    /// # Errors
    /// It is no answer.
    pub(crate) fn next<'a>(
        &mut self,
        input: &'a [u8],
        decoded: &'a mut Vec<u8>,
    ) -> Result<(usize, Part<'a>), Unreadable> {
        self.is_touched |= !input.is_empty();
        match &mut self.state {
            State::Head => self.read_head(input),
            State::Length(0) => {
                self.state = State::Over;
                Ok((0, Part::End))
            }
            _ if input.is_empty() => Ok((0, Part::Nothing)),
            State::Length(left) => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                let piece = &input[..input.len().min(most)];
                *left -= piece.len() as u64;
                Ok((piece.len(), Part::Piece(piece)))
            }
            State::Chunked(decoder) => {
                decoded.clear();
                let read = decoder.decode(input, decoded).map_err(|_| Unreadable)?;
                if read.done {
                    self.state = State::Length(0);
                }
                Ok((read.consumed, Part::Piece(decoded)))
            }
            State::UntilClose | State::Raw => Ok((input.len(), Part::Piece(input))),
            State::Over => Ok((0, Part::Nothing)),
        }
    }

    fn read_head(&mut self, input: &[u8]) -> Result<(usize, Part<'static>), Unreadable> {
        let mut used = 0;
        loop {
            let before = self.head_bytes.len();
            // Never more than can be a head, whatever came with it.
            let rest = &input[used..];
            let piece = &rest[..rest.len().min(HEAD_BYTES_MAX + 1 - before)];
            // A head that comes whole is read where it lies: the content that came with it is not
            // copied.
            let is_first = before == 0;
            if !is_first {
                self.head_bytes.extend_from_slice(piece);
            }
            let bytes = if is_first { piece } else { &self.head_bytes };
            let progress = parse_response(&mut self.head, bytes, HEAD_BYTES_MAX, self.to_head);
            let length = match progress.map_err(|_| Unreadable)? {
                Progress::Partial => {
                    if is_first {
                        self.head_bytes.extend_from_slice(piece);
                    }
                    return Ok((used + piece.len(), Part::Nothing));
                }
                Progress::Complete { head_len } => head_len,
            };
            used += length - before;
            // The answer itself is still to come (RFC 9110, section 15.2).
            if matches!(self.head.status(), 100 | 102..=199) {
                self.head_bytes.clear();
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    return Err(Unreadable);
                }
                continue;
            }
            match is_first {
                true => self.head_bytes.extend_from_slice(&piece[..length]),
                false => self.head_bytes.truncate(length),
            }
            break;
        }
        self.tells_of_more = self.head.framing() == ResponseFraming::None
            && (self.length().is_some_and(|length| length > 0)
                || self.head.known(Known::TransferEncoding).is_some());
        self.state = match (self.head.status(), self.head.framing()) {
            (101, _) if self.asks_upgrade => {
                self.state = State::Raw;
                return Ok((used, Part::Switch));
            }
            // Nobody asked for it.
            (101, _) => return Err(Unreadable),
            (_, ResponseFraming::None) => State::Length(0),
            (_, ResponseFraming::Length(length)) => State::Length(length),
            (_, ResponseFraming::Chunked) => {
                let limits = ChunkLimits {
                    body_max: u64::MAX,
                    extensions_max: u32::MAX,
                    ..ChunkLimits::default()
                };
                State::Chunked(Box::new(ChunkedDecoder::new(&limits)))
            }
            (_, ResponseFraming::UntilClose) => State::UntilClose,
        };
        Ok((used, Part::Head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status, the content, whether it is whole, and whether the connection can go on, when it
    /// comes in these pieces.
    fn read(pieces: &[&[u8]], to_head: bool) -> Result<(u16, Vec<u8>, bool, bool), Unreadable> {
        let mut reader = AnswerReader::new(to_head, false);
        let (mut content, mut status, mut is_over) = (Vec::new(), 0, false);
        let mut decoded = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            loop {
                let (used, part) = reader.next(rest, &mut decoded)?;
                rest = &rest[used..];
                match part {
                    Part::Head => status = reader.head().0.status(),
                    Part::Piece(piece) => content.extend_from_slice(piece),
                    Part::End => is_over = true,
                    Part::Switch => panic!("nobody asked for it"),
                    Part::Nothing => break,
                }
            }
        }
        let keeps_alive = reader.keeps_alive();
        Ok((status, content, is_over || reader.ended(), keeps_alive))
    }

    fn at_every_split(bytes: &[u8]) -> Result<(u16, Vec<u8>, bool, bool), Unreadable> {
        let whole = read(&[bytes], false);
        for split in 0..=bytes.len() {
            let (a, b) = bytes.split_at(split);
            assert_eq!(read(&[a, b], false), whole, "split at {split}");
        }
        assert_eq!(read(&bytes.chunks(1).collect::<Vec<_>>(), false), whole);
        whole
    }

    #[test]
    fn answers_are_read_however_they_come() {
        for (bytes, status, content, is_whole, keeps_alive) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
                200,
                "abc",
                true,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
                200,
                "ab",
                false,
                false,
            ),
            ("HTTP/1.1 204 No\r\n\r\n", 204, "", true, true),
            (
                "HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n",
                304,
                "",
                true,
                false,
            ),
            ("HTTP/1.1 304 No\r\nETag: a\r\n\r\n", 304, "", true, true),
            (
                "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 C\r\n\r\n\
                 HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3;a=b\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
                200,
                "abc",
                true,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
                200,
                "abc",
                false,
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\n\r\nto the end",
                200,
                "to the end",
                true,
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
                200,
                "a",
                true,
                false,
            ),
        ] {
            let read = at_every_split(bytes.as_bytes());
            let content = content.as_bytes().to_vec();
            assert_eq!(
                read,
                Ok((status, content, is_whole, keeps_alive)),
                "{bytes}"
            );
        }
        let to_head = read(&[b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"], true);
        assert_eq!(to_head, Ok((200, vec![], true, false)));
        let to_head = read(&[b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], true);
        assert_eq!(to_head, Ok((200, vec![], true, true)));
    }

    #[test]
    fn of_what_comes_with_a_head_nothing_is_kept() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n";
        let answer = head.to_owned() + &"x".repeat(20_000);
        let mut reader = AnswerReader::new(false, false);
        let mut kept = Vec::new();
        let read = reader.next(answer.as_bytes(), &mut kept);
        assert_eq!(read.map(|(used, _)| used), Ok(head.len()));
        assert_eq!(reader.head().1, head.as_bytes());
        assert!(reader.head_bytes.capacity() < 2 * head.len());
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let long = format!(
            "HTTP/1.1 200 OK\r\nX: {}\r\n\r\n",
            "x".repeat(HEAD_BYTES_MAX)
        );
        for bytes in [
            "nonsense",
            "HTTP/1.1 101 Go\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
            &long,
            &"HTTP/1.1 100 C\r\n\r\n".repeat(INTERIM_MAX as usize + 1),
        ] {
            assert_eq!(
                read(&[bytes.as_bytes()], false),
                Err(Unreadable),
                "{bytes:.60}"
            );
        }
    }
}
