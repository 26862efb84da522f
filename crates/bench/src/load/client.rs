//! A session: one user after another on a connection of its own.

use super::reader::AnswerReader;
use super::rng::Rng;
use super::walk::Walk;
use rhythm_net::{ConnectionId, Outgoing, Time};
use std::collections::VecDeque;

/// Bytes of requests that keep their buffer: more than one request has.
const OUT_KEPT: usize = 2048;

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Awaited<W: Walk> {
    pub(crate) ask: W::Ask,
    /// Sent, or due in open loop.
    pub(crate) started: Time,
    /// Sent; what the time-out counts from.
    pub(crate) sent: Time,
    pub(crate) expected: W::Expected,
    /// HEAD: its answer has no content.
    pub(crate) is_head: bool,
    /// GET or HEAD: may be sent again if the connection turns out closed (RFC 9110 section 9.2.2).
    pub(crate) is_safe: bool,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase<A> {
    /// Not begun; in open loop: nobody there.
    Idle,
    /// Until a timer: then what is asked for, or a new visit.
    Waiting(Option<A>),
    /// Requests are under way.
    Active,
    /// The run is over for it.
    Done,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Client<W: Walk> {
    pub(crate) phase: Phase<W::Ask>,
    pub(crate) visit: W::Visit,
    pub(crate) rng: Rng,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) is_connected: bool,
    /// Whether the connection has carried an answer.
    pub(crate) is_used: bool,
    /// Taken out while its bytes are looked at.
    pub(crate) reader: Option<Box<AnswerReader>>,
    /// The last request asked, should it have to be sent again.
    pub(crate) request: Vec<u8>,
    /// What the connection's socket has not taken yet.
    pub(crate) out: Outgoing,
    pub(crate) pending: VecDeque<Awaited<W>>,
    /// What to ask for before the walk goes on.
    pub(crate) queue: VecDeque<W::Ask>,
    /// Since when a page is under way to which several requests lead.
    pub(crate) since: Option<Time>,
    /// Whether the request under way was sent again already.
    pub(crate) is_retried: bool,
}

impl<W: Walk> Client<W> {
    pub(crate) fn new(seed: u64) -> Client<W> {
        Client {
            phase: Phase::Idle,
            visit: W::Visit::default(),
            rng: Rng::new(seed),
            connection: None,
            is_connected: false,
            is_used: false,
            reader: Some(Box::new(AnswerReader::new(W::BODY_MAX))),
            request: Vec::new(),
            out: Outgoing::keeping(OUT_KEPT),
            pending: VecDeque::new(),
            queue: VecDeque::new(),
            since: None,
            is_retried: false,
        }
    }

    /// Forgets the connection, and what was still to be sent on it.
    pub(crate) fn disconnected(&mut self) -> Option<ConnectionId> {
        (self.is_connected, self.is_used) = (false, false);
        self.out.clear();
        if let Some(reader) = &mut self.reader {
            reader.clear();
        }
        self.connection.take()
    }

    /// Whether the only request under way may be sent again: the server closed a connection that
    /// had been idle, at the moment the request was sent (RFC 9112 section 9.3.1).
    pub(crate) fn may_retry(&self) -> bool {
        let nothing_came = self.reader.as_ref().is_some_and(|reader| reader.is_empty());
        let is_safe = self.pending.len() == 1 && self.pending[0].is_safe;
        self.is_used && nothing_came && is_safe && !self.is_retried
    }
}
