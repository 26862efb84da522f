//! One connection to a remote backend: requests go in at one end, and come out at the other with
//! their answers, in the same order (RFC 9112, section 9.3.2, *Pipelining*).
//!
//! All requests put in between two flushes leave in one send, so that a cohort's batch costs a
//! system call and not one a request. A pipe is the owner of the requests in it: when it ends,
//! whoever takes it apart has them all back.

use rhythm_net::{ConnectionId, Port, Sent, Time};
use std::collections::VecDeque;

/// A request that was taken over and not yet answered.
#[derive(Debug)]
pub(super) struct Sending {
    /// What its answer is told by.
    pub(super) key: u64,
    /// What is sent.
    pub(super) bytes: Vec<u8>,
    /// Columns of the rows it asks for.
    pub(super) columns: u16,
    /// When it is given up.
    pub(super) deadline: Time,
    /// May it be sent again though it may have been carried out?
    pub(super) idempotent: bool,
    /// How often it was sent again.
    pub(super) retries: u32,
}

/// A call in a pipe.
#[derive(Debug)]
struct InFlight {
    call: Sending,
    /// Where its bytes end, counted from the first byte of the connection.
    end: u64,
}

/// Where a pipe stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The connection is being opened, greetings included, until then.
    Opening { until: Time },
    /// The connection stands. Idle, it is kept until then.
    Open { idle_until: Time },
}

/// A connection with the requests in it.
#[derive(Debug)]
pub(super) struct Pipe<R> {
    pub(super) connection: ConnectionId,
    pub(super) phase: Phase,
    pub(super) requests: Requests,
    pub(super) reader: R,
    /// An answer came over it that did not end it. Before, it is not known that the other side
    /// keeps connections, so that only one request is risked.
    pub(super) proven: bool,
}

impl<R: Default> Pipe<R> {
    pub(super) fn new(connection: ConnectionId, until: Time) -> Pipe<R> {
        Pipe {
            connection,
            phase: Phase::Opening { until },
            requests: Requests::default(),
            reader: R::default(),
            proven: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// How many more requests it takes, if it may hold `depth`.
    pub(super) fn room(&self, depth: usize) -> usize {
        let depth = if self.proven { depth } else { 1 };
        match self.phase {
            Phase::Opening { .. } => 0,
            Phase::Open { .. } => depth.saturating_sub(self.requests.in_flight.len()),
        }
    }

    /// When it wants to be looked at, if nothing happens before.
    pub(super) fn wake_at(&self) -> Time {
        match self.phase {
            Phase::Opening { until } => until,
            Phase::Open { idle_until } if self.requests.in_flight.is_empty() => idle_until,
            Phase::Open { .. } => Time::NEVER,
        }
    }

    /// Sends what the socket takes. False: the connection is gone.
    #[must_use]
    pub(super) fn flush(&mut self, port: &mut dyn Port) -> bool {
        self.requests.flush(port, self.connection)
    }
}

/// The requests in a pipe and their bytes that are still to be sent.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// In the order they were put in.
    in_flight: VecDeque<InFlight>,
    /// Bytes to be sent; the first `sent` of them are.
    output: Vec<u8>,
    sent: usize,
    /// Bytes put in, and bytes that the socket took, since the connection began.
    put_total: u64,
    sent_total: u64,
    /// The socket is full.
    blocked: bool,
}

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// The calls, in order.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Sending> {
        self.in_flight.iter().map(|in_flight| &in_flight.call)
    }

    /// Puts a request in, to leave with the next flush.
    pub(super) fn put(&mut self, call: Sending) {
        if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        self.output.extend_from_slice(&call.bytes);
        self.put_total += call.bytes.len() as u64;
        let end = self.put_total;
        self.in_flight.push_back(InFlight { call, end });
    }

    /// Puts what opens the connection in, before any request.
    pub(super) fn put_greeting(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        self.put_total += bytes.len() as u64;
    }

    /// Columns of the rows that the next answer has; 0 where none is awaited.
    pub(super) fn columns_next(&self) -> u16 {
        let first = self.in_flight.front();
        first.map_or(0, |first| first.call.columns)
    }

    fn flush(&mut self, port: &mut dyn Port, connection: ConnectionId) -> bool {
        let rest = &self.output[self.sent..];
        if self.blocked || rest.is_empty() {
            return true;
        }
        let Sent::Taken(taken) = port.send(connection, rest) else {
            return false;
        };
        self.blocked = taken < rest.len();
        self.sent_total += taken as u64;
        self.sent += taken;
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        true
    }

    /// The socket takes bytes again.
    pub(super) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// The call that the next answer is for. `None` where none was sent to its last byte: nobody
    /// can have answered it.
    pub(super) fn take_answered(&mut self) -> Option<Sending> {
        let first = self.in_flight.front()?;
        if first.end > self.sent_total {
            return None;
        }
        self.in_flight.pop_front().map(|first| first.call)
    }

    /// Takes the last call back, and says whether the other side may have all of it: without its
    /// last byte it cannot have begun with it.
    pub(super) fn take_back(&mut self) -> Option<(Sending, bool)> {
        let last = self.in_flight.pop_back()?;
        Some((last.call, last.end <= self.sent_total))
    }
}
