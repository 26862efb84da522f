//! Input: bytes of one connection and the requests in them.
//!
//! Requests are parsed where the driver received them. Only what is left at the end, part of a
//! request, or one that has to wait, is copied.

use crate::answer::{AnswerSlot, HostId, Owed};
use crate::clients::stall::Stall;
use crate::limits::RequestLimits;
use rhythm_net::{ConnectionId, Port};
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{
    Framing, HeadTemplate, RequestError, RequestHead, parse_head_like,
};

/// Input of a connection, and how far it is parsed.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// What is not done with; empty while it lies where the driver received it.
    bytes: Vec<u8>,
    /// Parsed as far as the bytes go.
    pub(crate) head: RequestHead,
    /// Where the head is complete.
    body: Option<Body>,
}

/// The body of a request whose head is complete.
#[derive(Debug, Default)]
struct Body {
    /// Length of the head in front of it; 0 once that is done with.
    head_length: usize,
    /// For a body in chunks: the decoder and what it decoded.
    chunked: Option<ChunkedDecoder>,
    decoded: Vec<u8>,
    /// Bytes behind the head that are decoded already.
    decoded_to: usize,
    /// Once all of it is there: its length as it was sent.
    complete: Option<usize>,
    /// The owner was told of the head before the body was there.
    told: bool,
    /// The owner was told that the client waits for `100 Continue`.
    expects_told: bool,
    /// Its host takes it in pieces.
    pieces: Option<Pieces>,
}

/// A body that is taken in pieces.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    host: HostId,
    slot: AnswerSlot,
    /// Bytes that are still to come, unless it is in chunks; `u64::MAX` of what has no end.
    left: u64,
    /// The piece at hand: bytes of input it is made of, and whether it is the last.
    used: usize,
    is_last: bool,
}

impl Input {
    /// Whether the head of a request is complete.
    pub(crate) fn has_head(&self) -> bool {
        self.body.is_some()
    }

    /// What it has of a request, as far as that is kept, without its content.
    pub(crate) fn part(&self) -> Incoming<'_> {
        Incoming {
            head: &self.head,
            bytes: &self.bytes,
            content: &[],
        }
    }

    /// Whether a head has begun.
    pub(crate) fn is_partial(&self) -> bool {
        self.head.is_partial()
    }

    /// Whether the body of a request is taken in pieces.
    pub(crate) fn is_in_pieces(&self) -> bool {
        (self.body.as_ref()).is_some_and(|body| body.pieces.is_some())
    }

    /// Bytes of memory that it has of the system.
    pub(crate) fn memory(&self) -> usize {
        let decoded = self.body.as_ref().map_or(0, |body| body.decoded.capacity());
        size_of::<Input>() + self.bytes.capacity() + decoded
    }

    /// Forgets what it holds, for another connection.
    pub(crate) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.head.clear();
        self.body = None;
    }
}

/// What comes next in a connection's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole request, to which an answer is [owed](Reading::owed). It is done with when it is
    /// [taken](Reading::taken), or [put back](crate::Reader::put_back).
    Request,
    /// A request whose content is yet to come, in whole or part. It is collected, unless a host
    /// takes it in pieces: [`Hosts::take_early`](crate::Hosts::take_early). Or one that asks for
    /// another protocol, whose bytes would follow it.
    Head,
    /// The client waits to be asked for that content: `Clients::send_continue`, or a refusal.
    Expects,
    /// A piece of a request's content, for its host: [`Hosts::piece`](crate::Hosts::piece).
    Piece,
    /// A request that is to be refused.
    Refuse {
        /// What it is answered.
        status: u16,
        /// What is wrong with its head, if that is why.
        fault: Option<RequestError>,
    },
    /// Nothing for now.
    Nothing,
}

/// A whole request, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Its head.
    pub head: &'a RequestHead,
    /// The bytes that the head's offsets are of.
    pub bytes: &'a [u8],
    /// Its content.
    pub content: &'a [u8],
}

/// A connection's input while it is being read.
#[derive(Debug)]
pub struct Reading<'a> {
    pub(crate) id: ConnectionId,
    pub(crate) input: Box<Input>,
    /// Bytes where they were received, unless they are appended to those of the input.
    pub(crate) received: &'a [u8],
    /// Bytes of requests that are done with.
    pub(crate) used: usize,
    /// The stall that was over; `None`: bytes were received.
    pub(crate) after: Option<Stall>,
    pub(crate) state: State,
}

/// How far a [`Reading`] has come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// What comes next is looked for.
    Open,
    /// A whole request is at hand.
    Whole {
        /// What is owed to it.
        owed: Owed,
        /// It is its connection's first, with nothing else under way.
        is_first: bool,
    },
    /// The rest is of no interest: the connection takes no more requests.
    Over,
    /// The system had no memory for what was received.
    Lost,
    /// The connection was aborted.
    Aborted,
}

impl<'a> Reading<'a> {
    /// Begins to read what is kept of a connection's input, and what was received beyond.
    #[inline]
    pub(crate) fn new(
        id: ConnectionId,
        mut input: Box<Input>,
        received: &'a [u8],
        after: Option<Stall>,
    ) -> Reading<'a> {
        let is_lost = !input.bytes.is_empty() && input.bytes.try_reserve(received.len()).is_err();
        if !input.bytes.is_empty() && !is_lost {
            input.bytes.extend_from_slice(received);
        }
        Reading {
            id,
            input,
            received,
            used: 0,
            after,
            state: match is_lost {
                true => State::Lost,
                false => State::Open,
            },
        }
    }

    /// Whether a stall was over.
    #[inline]
    pub(crate) fn resumes(&self) -> bool {
        self.after.is_some()
    }

    /// Whether no request was found in it yet, and it has not waited but for a context.
    #[inline]
    pub(crate) fn may_be_first(&self) -> bool {
        self.used == 0 && matches!(self.after, None | Some(Stall::Context | Stall::Memory))
    }

    /// Whether the request at hand is its connection's first, with nothing else under way.
    #[inline]
    pub(crate) fn is_first(&self) -> bool {
        matches!(self.state, State::Whole { is_first: true, .. })
    }

    /// Whether the request at hand has waited for room, and goes on.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.used == 0 && self.after == Some(Stall::Room)
    }

    /// The answer that is owed to the whole request at hand.
    ///
    /// # Panics
    /// Where none is at hand.
    #[inline]
    pub fn owed(&self) -> Owed {
        match self.state {
            State::Whole { owed, .. } => owed,
            _ => panic!("a whole request is at hand"),
        }
    }

    /// Errors that answer the request at hand are told as JSON.
    #[inline]
    pub fn tell_errors_as_json(&mut self) {
        if let State::Whole { owed, .. } = &mut self.state {
            owed.shape.json = true;
        }
    }

    /// Whether there is nothing more in it.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        !self.input.is_in_pieces() && self.bytes().is_empty()
    }

    /// Whose input it is.
    pub fn connection(&self) -> ConnectionId {
        self.id
    }

    /// The head of the request at hand.
    #[inline]
    pub fn head(&self) -> &RequestHead {
        &self.input.head
    }

    /// The bytes that the head's offsets are of.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let all = if self.input.bytes.is_empty() {
            self.received
        } else {
            &self.input.bytes
        };
        &all[self.used..]
    }

    /// The request at hand; without its content before that is complete.
    #[inline]
    pub fn request(&self) -> Incoming<'_> {
        Incoming {
            head: self.head(),
            bytes: self.bytes(),
            content: self.content(),
        }
    }

    /// What has come of the request at hand, without its content.
    pub fn part(&self) -> Incoming<'_> {
        Incoming {
            head: self.head(),
            bytes: self.bytes(),
            content: &[],
        }
    }

    /// The content of the whole request, or the piece of it, at hand.
    #[inline]
    pub fn content(&self) -> &[u8] {
        let Some(body) = &self.input.body else {
            return &[];
        };
        match (&body.chunked, &body.pieces) {
            (Some(_), _) => &body.decoded,
            (None, Some(pieces)) => &self.bytes()[..pieces.used],
            (None, None) => &self.bytes()[body.head_length..][..body.complete.unwrap_or(0)],
        }
    }

    /// Whose the piece at hand is, the answer to its request, and whether it is the last.
    pub(crate) fn piece(&self) -> Option<(HostId, AnswerSlot, bool)> {
        let pieces = self.input.body.as_ref()?.pieces?;
        Some((pieces.host, pieces.slot, pieces.is_last))
    }

    /// Whether there is input behind the whole request at hand.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        let body = self.input.body.as_ref();
        let length = body.map_or(0, |body| body.head_length + body.complete.unwrap_or(0));
        self.bytes().len() > length
    }

    /// The request at hand, or the piece of it, is done with.
    pub fn taken(&mut self) {
        let Some(body) = &mut self.input.body else {
            debug_assert!(false, "nothing was at hand");
            return;
        };
        let is_whole = match &mut body.pieces {
            Some(pieces) => {
                self.used += std::mem::take(&mut pieces.used);
                body.decoded.clear();
                pieces.is_last
            }
            None => {
                self.used += body.head_length + body.complete.unwrap_or(0);
                true
            }
        };
        if is_whole {
            self.input.body = None;
            self.state = State::Open;
        }
    }

    /// The request whose head is at hand is done with, but for its content, which comes in pieces
    /// ([`Clients::expect_pieces`]).
    pub(crate) fn in_pieces(&mut self, host: HostId, slot: AnswerSlot) {
        let Input { head, body, .. } = &mut *self.input;
        let Some(body) = body else {
            unreachable!("the head is complete");
        };
        let left = match head.framing() {
            Framing::Length(length) => length,
            Framing::Chunked => {
                let limits = ChunkLimits {
                    body_max: u64::MAX,
                    ..ChunkLimits::default()
                };
                body.chunked = Some(ChunkedDecoder::new(&limits));
                0
            }
            // All that follows is another protocol's.
            Framing::None => u64::MAX,
        };
        self.used += std::mem::take(&mut body.head_length);
        body.pieces = Some(Pieces {
            host,
            slot,
            left,
            used: 0,
            is_last: false,
        });
    }

    /// The connection cannot go on: it is dropped.
    #[cold]
    pub(crate) fn abort(&mut self, port: &mut dyn Port) {
        port.abort(self.id);
        self.state = State::Aborted;
    }

    /// What is left to be kept.
    #[inline]
    pub(crate) fn rest(self) -> Rest {
        let Reading {
            mut input,
            received,
            used,
            state,
            ..
        } = self;
        let is_over = matches!(state, State::Over | State::Aborted);
        let length = received.len().max(input.bytes.len());
        if is_over || used == length && !input.is_in_pieces() {
            return Rest::Nothing(input);
        }
        let mut end = length;
        if let Some(body) = &mut input.body
            && body.complete.is_none()
            && body.decoded_to > 0
        {
            // What was decoded as it came is not needed again.
            end = used + body.head_length;
            body.decoded_to = 0;
        }
        if input.bytes.is_empty() {
            if input.bytes.try_reserve_exact(end - used).is_err() {
                return Rest::Lost;
            }
            input.bytes.extend_from_slice(&received[used..end]);
        } else {
            input.bytes.truncate(end);
            input.bytes.drain(..used);
        }
        Rest::Kept(input)
    }
}

/// What is left of an input.
pub(crate) enum Rest {
    /// This is to be kept.
    Kept(Box<Input>),
    /// Nothing: here is the memory for the next one.
    Nothing(Box<Input>),
    /// The system had no memory to keep it: its connection cannot go on.
    Lost,
}

/// The next piece of a body that is taken in pieces. A body that is malformed is the end.
pub(crate) fn next_piece(reading: &mut Reading<'_>) -> Next {
    let Input { bytes, body, .. } = &mut *reading.input;
    let rest = match bytes.is_empty() {
        true => &reading.received[reading.used..],
        false => &bytes[reading.used..],
    };
    let Some(body) = body else {
        return Next::Nothing;
    };
    let Some(pieces) = &mut body.pieces else {
        return Next::Nothing;
    };
    match &mut body.chunked {
        None => {
            pieces.used = rest
                .len()
                .min(usize::try_from(pieces.left).unwrap_or(usize::MAX));
            pieces.left -= pieces.used as u64;
            pieces.is_last = pieces.left == 0;
        }
        Some(decoder) => {
            body.decoded.clear();
            match decoder.decode(rest, &mut body.decoded) {
                Ok(decoded) => (pieces.used, pieces.is_last) = (decoded.consumed, decoded.done),
                Err(_) => {
                    reading.state = State::Over;
                    return Next::Nothing;
                }
            }
        }
    }
    let is_empty = match body.chunked {
        Some(_) => body.decoded.is_empty(),
        None => pieces.used == 0,
    };
    if is_empty && !pieces.is_last {
        reading.used += std::mem::take(&mut pieces.used);
        return Next::Nothing;
    }
    Next::Piece
}

/// The next request, or what is known of it.
pub(crate) fn next_request(
    reading: &mut Reading<'_>,
    template: &mut HeadTemplate,
    limits: &RequestLimits,
) -> Next {
    let Input { bytes, head, body } = &mut *reading.input;
    let rest = match bytes.is_empty() {
        true => &reading.received[reading.used..],
        false => &bytes[reading.used..],
    };
    let body = match body {
        Some(body) => body,
        None => match parse_head_like(template, head, rest, &limits.head) {
            Err(error) => {
                return Next::Refuse {
                    status: error.status(),
                    fault: Some(error),
                };
            }
            Ok(Progress::Partial) => return Next::Nothing,
            Ok(Progress::Complete { head_len }) => body.insert(Body {
                head_length: head_len,
                ..Body::default()
            }),
        },
    };
    if body.complete.is_some() {
        return Next::Request;
    }
    let after = &rest[body.head_length..];
    let may_come = match head.framing() {
        // What follows it is no request, if the answer says so.
        Framing::None => head.asks_upgrade(),
        // One that is longer than is held is told of, too, though it is there: a host may take it.
        Framing::Length(length) => length > after.len().min(limits.body_max) as u64,
        Framing::Chunked => true,
    };
    if may_come && !std::mem::replace(&mut body.told, true) {
        return Next::Head;
    }
    match collect(head, after, limits.body_max, body) {
        Err(status) => Next::Refuse {
            status,
            fault: None,
        },
        Ok(()) if body.complete.is_some() => Next::Request,
        Ok(()) if head.expect_continue() && !std::mem::replace(&mut body.expects_told, true) => {
            Next::Expects
        }
        Ok(()) => Next::Nothing,
    }
}

/// Collects the body that follows a head; `body.complete` is its length as sent, once it is there.
fn collect(head: &RequestHead, after: &[u8], body_max: usize, body: &mut Body) -> Result<(), u16> {
    match head.framing() {
        Framing::None => body.complete = Some(0),
        Framing::Length(length) => {
            let length = usize::try_from(length)
                .ok()
                .filter(|length| *length <= body_max);
            let length = length.ok_or(413u16)?;
            body.complete = (after.len() >= length).then_some(length);
        }
        Framing::Chunked => {
            let limits = ChunkLimits {
                body_max: body_max as u64,
                ..ChunkLimits::default()
            };
            // The system may have no memory for more.
            let more = after.len() - body.decoded_to;
            (body.decoded.try_reserve(more)).map_err(|_| 503u16)?;
            let decoder = body
                .chunked
                .get_or_insert_with(|| ChunkedDecoder::new(&limits));
            let decoded = decoder
                .decode(&after[body.decoded_to..], &mut body.decoded)
                .map_err(|error| error.status())?;
            body.decoded_to += decoded.consumed;
            body.complete = decoded.done.then_some(body.decoded_to);
        }
    }
    Ok(())
}
