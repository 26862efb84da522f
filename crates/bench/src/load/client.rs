//! A session: one user after another on a connection of its own.

use super::chain::Page;
use super::expect::Expected;
use super::reader::AnswerReader;
use super::rng::Rng;
use super::visit::{Ask, Visit};
use rhythm_net::{ConnectionId, Outgoing, Time};
use std::collections::VecDeque;

/// Bytes of requests that keep their buffer: more than one request has.
const OUT_KEPT: usize = 2048;

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) ask: Ask,
    /// Sent, or due in open loop.
    pub(crate) started: Time,
    /// Sent; what the time-out counts from.
    pub(crate) sent: Time,
    pub(crate) expected: Expected,
    /// The static file this must equal, for check images.
    pub(crate) file: Option<u16>,
    /// Whether there was a condition, so that 304 must come.
    pub(crate) is_conditional: bool,
    /// GET or HEAD: may be sent again if the connection turns out closed (RFC 9110 section 9.2.2).
    pub(crate) is_safe: bool,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not begun; in open loop: nobody there.
    Idle,
    /// Until a timer: then the page, or a new visit.
    Waiting(Option<Page>),
    /// Requests are under way.
    Active,
    /// The run is over for it.
    Done,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) visit: Visit,
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
    pub(crate) pending: VecDeque<Awaited>,
    /// What to ask for before the chain goes on.
    pub(crate) queue: VecDeque<Ask>,
    /// Whether the request under way was sent again already.
    pub(crate) is_retried: bool,
}

impl Client {
    pub(crate) fn new(seed: u64) -> Client {
        Client {
            phase: Phase::Idle,
            visit: Visit::new(1, true),
            rng: Rng::new(seed),
            connection: None,
            is_connected: false,
            is_used: false,
            reader: Some(Box::default()),
            request: Vec::new(),
            out: Outgoing::keeping(OUT_KEPT),
            pending: VecDeque::new(),
            queue: VecDeque::new(),
            is_retried: false,
        }
    }

    /// Forgets the connection, and what was still to be sent on it.
    pub(crate) fn disconnected(&mut self) -> Option<ConnectionId> {
        (self.is_connected, self.is_used) = (false, false);
        self.visit.has_lost_connection |= self.connection.is_some();
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
