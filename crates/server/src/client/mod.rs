//! Connections: what is kept of each between events, and how answers get into them in order.
//!
//! Requests of a connection are numbered as they are parsed, and answers go out by these numbers.
//! An answer whose turn has come is written into one buffer that all connections share and that
//! stays hot in the cache; what follows for the same connection joins it, and it is sent when
//! another connection's turn comes. Only an answer that is too early, or that the socket does not
//! take, is kept in the connection. An idle connection has no buffer at all.

mod clients;

pub(crate) use clients::Clients;

use rhythm_engine::settings::Limits;
use rhythm_net::{ConnectionId, Time};
use rhythm_protocol::http::body::ChunkedDecoder;
use rhythm_protocol::http::request::RequestHead;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Limits of clients' connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// From a connection's opening, or a head's first byte, to the head's end.
    pub header_timeout: Duration,
    /// From a head's end to its body's end.
    pub body_timeout: Duration,
    /// Between an answer and the next request.
    pub idle_timeout: Duration,
    /// For the client to take what is ready for it, beside the time its bytes take at
    /// [`SEND_RATE_MIN`].
    pub send_timeout: Duration,
    /// Requests after which a connection is closed, if any.
    pub requests_max: Option<NonZeroU32>,
    /// Requests of one connection under way at a time; more are not read.
    pub pipelined_max: u32,
}

/// The slowest that a client may read over time, bytes a second.
pub const SEND_RATE_MIN: u64 = 4096;

impl ClientLimits {
    /// What a service's settings say.
    pub fn of(limits: &Limits) -> ClientLimits {
        ClientLimits {
            header_timeout: limits.header_timeout,
            body_timeout: limits.body_timeout,
            idle_timeout: limits.idle_timeout,
            send_timeout: limits.send_timeout,
            requests_max: limits.requests_per_connection_max,
            pipelined_max: limits.pipelined_max,
        }
    }
}

/// Input that is not a whole request yet, or one that has to wait.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) bytes: Vec<u8>,
    /// Parsed as far as the bytes go.
    pub(crate) head: RequestHead,
    /// Where the head is complete.
    pub(crate) body: Option<Body>,
}

/// The body of a request whose head is complete.
#[derive(Debug, Default)]
pub(crate) struct Body {
    /// Length of the head in front of it.
    pub(crate) head_length: usize,
    /// For a body in chunks: the decoder and what it decoded.
    pub(crate) chunked: Option<ChunkedDecoder>,
    pub(crate) decoded: Vec<u8>,
    /// Once all of it is there: its length as it was sent.
    pub(crate) complete: Option<usize>,
    /// `100 Continue` was sent.
    pub(crate) continued: bool,
}

/// Why no more input is taken from a connection for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// No cohort context is free.
    Context,
    /// Too many of its requests are under way.
    Pipelined,
    /// It does not take its answers.
    Output,
}

/// What a connection's timer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// For the first byte of its first request.
    First,
    /// For the rest of a head.
    Head,
    /// For the rest of a body.
    Body,
    /// For another request.
    Idle,
    /// For the client to take its answers.
    Output,
    /// For us.
    Answer,
}

/// Bytes that are still to be sent.
#[derive(Debug)]
enum Unsent {
    /// Bytes of its own, from `sent` on.
    Own { bytes: Vec<u8>, sent: usize },
    /// A part of a file.
    File {
        bytes: Arc<[u8]>,
        range: Range<usize>,
    },
}

impl Unsent {
    fn own(bytes: Vec<u8>) -> Unsent {
        Unsent::Own { bytes, sent: 0 }
    }

    fn rest(&self) -> &[u8] {
        match self {
            Unsent::Own { bytes, sent } => &bytes[*sent..],
            Unsent::File { bytes, range } => &bytes[range.clone()],
        }
    }

    fn advance(&mut self, taken: usize) {
        match self {
            Unsent::Own { sent, .. } => *sent += taken,
            Unsent::File { range, .. } => range.start += taken,
        }
    }
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) connection: ConnectionId,
    /// Its place in the order of the connection's answers.
    pub(crate) sequence: u32,
    /// It is the connection's last.
    pub(crate) close: bool,
}

/// An answer that is ready before its turn.
#[derive(Debug)]
struct Early {
    sequence: u32,
    bytes: Vec<u8>,
    close: bool,
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    id: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) tail: Option<Box<Tail>>,
    pub(crate) stall: Option<Stall>,
    /// No further request is taken: one asked for the connection's end, or was malformed.
    pub(crate) last_taken: bool,
    /// The client sends no more.
    pub(crate) peer_finished: bool,
    /// Requests taken so far.
    pub(crate) requests: u32,
    next_answer: u32,
    early: Vec<Early>,
    unsent: VecDeque<Unsent>,
    /// The last answer is written: close when everything is sent.
    closing: bool,
    /// `100 Continue` is due when this many answers are written.
    continue_at: Option<u32>,
    waiting: Waiting,
    /// When it began to, and how many requests there were then.
    since: Time,
    since_requests: u32,
}

impl Connection {
    /// Requests whose answers are not written yet.
    #[inline]
    pub(crate) fn under_way(&self) -> u32 {
        self.requests.wrapping_sub(self.next_answer)
    }

    /// Takes one more request and gives its place in the order.
    #[inline]
    pub(crate) fn take_request(&mut self, last: bool) -> u32 {
        let sequence = self.requests;
        self.requests = self.requests.wrapping_add(1);
        self.last_taken |= last;
        sequence
    }

    /// Whether nothing of it is under way and nothing is kept for it.
    fn is_idle(&self) -> bool {
        self.under_way() == 0 && self.unsent.is_empty() && self.tail.is_none()
    }
}

/// The bytes at the end of what is unsent, to append to.
fn last_own(unsent: &mut VecDeque<Unsent>) -> &mut Vec<u8> {
    if !matches!(unsent.back(), Some(Unsent::Own { .. })) {
        unsent.push_back(Unsent::own(Vec::new()));
    }
    match unsent.back_mut() {
        Some(Unsent::Own { bytes, .. }) => bytes,
        _ => unreachable!("just made sure"),
    }
}
