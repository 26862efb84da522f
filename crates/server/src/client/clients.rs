//! All clients' connections of a worker: answers in order, closing, timers.

use super::{
    ClientLimits, Connection, Early, SEND_RATE_MIN, Stall, Tail, Turn, Unsent, Waiting, last_own,
};
use rhythm_net::{ConnectionId, Port, Sent, Time, TimerWheel};
use rhythm_protocol::http::response::CONTINUE;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A connection without a request is closed this long after draining has begun.
const DRAIN_GRACE: Duration = Duration::from_millis(500);
/// The shared buffer is sent when it holds this much: what stays in the second-level cache.
const OUTBOX_BYTES: usize = 64 * 1024;
/// A file of at least this size is not copied into the outbox.
const FILE_SHARED_BYTES: usize = 32 * 1024;

/// All clients' connections of a worker.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) limits: ClientLimits,
    /// The time of the event at hand.
    pub(crate) now: Time,
    connections: Vec<Option<Connection>>,
    open: usize,
    timers: TimerWheel,
    outbox: Vec<u8>,
    outbox_to: Option<ConnectionId>,
    /// Connections that may go on: their stall is over.
    unstalled: Vec<ConnectionId>,
    due: Vec<u32>,
    /// What the next connection that is read needs for it.
    pub(crate) spare: Option<Box<Tail>>,
    /// Every answer is the last of its connection.
    pub(crate) draining: bool,
}

impl Clients {
    pub(crate) fn new(limits: ClientLimits, now: Time) -> Clients {
        Clients {
            limits,
            now,
            connections: Vec::new(),
            open: 0,
            timers: TimerWheel::new(now),
            outbox: Vec::with_capacity(OUTBOX_BYTES * 2),
            outbox_to: None,
            unstalled: Vec::new(),
            due: Vec::new(),
            spare: None,
            draining: false,
        }
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// A connection was accepted.
    pub(crate) fn opened(&mut self, id: ConnectionId, peer: SocketAddr) {
        let slot = id.slot() as usize;
        if slot >= self.connections.len() {
            self.connections.resize_with(slot + 1, || None);
        }
        let connection = Connection {
            id,
            peer,
            tail: None,
            stall: None,
            last_taken: false,
            peer_finished: false,
            requests: 0,
            next_answer: 0,
            early: Vec::new(),
            unsent: VecDeque::new(),
            closing: false,
            continue_at: None,
            waiting: Waiting::First,
            since: self.now,
            since_requests: 0,
        };
        if self.connections[slot].replace(connection).is_none() {
            self.open += 1;
        }
        let limit = self.first_limit();
        self.timers.set(id.slot(), self.now + limit);
    }

    /// How long a connection may be silent before its first request.
    fn first_limit(&self) -> Duration {
        let limit = self.limits.header_timeout;
        if self.draining {
            limit.min(DRAIN_GRACE)
        } else {
            limit
        }
    }

    /// Whether this is an open connection of a client.
    #[inline]
    pub(crate) fn has(&mut self, id: ConnectionId) -> bool {
        self.get(id).is_some()
    }

    /// A connection, if it is open and a client's.
    #[inline]
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(id.slot() as usize)?.as_mut()?;
        (connection.id == id).then_some(connection)
    }

    /// What must hold between two events.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        for connection in self.connections.iter().flatten() {
            let (early, unsent) = (&connection.early, &connection.unsent);
            if connection.is_idle() && (early.capacity() != 0 || unsent.capacity() != 0) {
                return Err(format!("{:?} is idle and keeps a buffer", connection.id));
            }
            if early.len() as u32 > connection.under_way() {
                return Err(format!("{:?} has answers to nothing", connection.id));
            }
        }
        if self.outbox_to.is_none() && !self.outbox.is_empty() {
            return Err("bytes for nobody wait to be sent".to_owned());
        }
        Ok(())
    }

    /// Forgets a connection that is gone.
    pub(crate) fn remove(&mut self, id: ConnectionId) {
        if self.get(id).is_some() {
            self.connections[id.slot() as usize] = None;
            self.open -= 1;
            self.timers.clear(id.slot());
        }
        if self.outbox_to == Some(id) {
            self.outbox_to = None;
            self.outbox.clear();
        }
    }

    /// Whether the answer with this number is to say that the connection ends with it: `None` where
    /// its client is gone.
    #[inline]
    pub(crate) fn ends_with(&mut self, id: ConnectionId, sequence: u32) -> Option<bool> {
        let draining = self.draining;
        let connection = self.get(id)?;
        let ends = draining
            && sequence.wrapping_add(1) == connection.requests
            && connection.tail.is_none();
        connection.last_taken |= ends;
        Some(ends)
    }

    /// Writes an answer in its turn. `write` appends it; where the client is gone it is not called.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        port: &mut dyn Port,
        turn: Turn,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Turn {
            connection: to,
            sequence,
            close,
        } = turn;
        let Some(connection) = self.get(to) else {
            return;
        };
        if connection.next_answer != sequence {
            let mut bytes = Vec::new();
            write(&mut bytes);
            connection.early.push(Early {
                sequence,
                bytes,
                close,
            });
            return;
        }
        connection.next_answer = sequence.wrapping_add(1);
        connection.closing |= close;
        if connection.unsent.is_empty() {
            if self.outbox_to != Some(to) {
                self.flush(port);
                self.outbox_to = Some(to);
            }
            write(&mut self.outbox);
            if self.outbox.len() >= OUTBOX_BYTES {
                self.flush(port);
            }
        } else {
            write(last_own(&mut connection.unsent));
        }
        self.answered(port, to);
    }

    /// As [`Clients::answer`] for an answer with a part of a file as its body.
    pub(crate) fn answer_file(
        &mut self,
        port: &mut dyn Port,
        turn: Turn,
        head: impl FnOnce(&mut Vec<u8>),
        file: &Arc<[u8]>,
        range: Range<usize>,
    ) {
        let Turn {
            connection: to,
            sequence,
            close,
        } = turn;
        let early = self
            .get(to)
            .is_some_and(|connection| connection.next_answer != sequence);
        if range.len() < FILE_SHARED_BYTES || early {
            return self.answer(port, turn, |out| {
                head(out);
                out.extend_from_slice(&file[range]);
            });
        }
        // The head first, as an answer of its own, then the file behind it.
        self.flush(port);
        let Some(connection) = self.get(to) else {
            return;
        };
        connection.next_answer = sequence.wrapping_add(1);
        connection.closing |= close;
        head(last_own(&mut connection.unsent));
        let bytes = file.clone();
        connection.unsent.push_back(Unsent::File { bytes, range });
        self.follow_up(port, to);
    }

    /// What follows when a connection's next answer has been written: those that were too early,
    /// `100 Continue`.
    #[inline]
    fn answered(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let Some(connection) = self.get(id) else {
            return;
        };
        if connection.early.is_empty() && connection.continue_at.is_none() {
            return;
        }
        self.follow_up(port, id);
    }

    #[cold]
    fn follow_up(&mut self, port: &mut dyn Port, id: ConnectionId) {
        self.flush(port);
        let Some(connection) = self.get(id) else {
            return;
        };
        let next = |c: &Connection| {
            c.early
                .iter()
                .position(|early| early.sequence == c.next_answer)
        };
        while let Some(index) = next(connection) {
            let early = connection.early.swap_remove(index);
            connection.next_answer = connection.next_answer.wrapping_add(1);
            connection.closing |= early.close;
            connection.unsent.push_back(Unsent::own(early.bytes));
        }
        if connection.early.is_empty() {
            // Its memory too: an idle connection has none.
            connection.early = Vec::new();
        }
        if connection.continue_at == Some(connection.next_answer) {
            connection.continue_at = None;
            last_own(&mut connection.unsent).extend_from_slice(CONTINUE);
        }
        self.send_unsent(port, id);
        self.settle(port, id);
    }

    /// Sends `100 Continue` once all answers before it are written.
    pub(crate) fn send_continue(&mut self, port: &mut dyn Port, id: ConnectionId) {
        if let Some(connection) = self.get(id) {
            connection.continue_at = Some(connection.requests);
            self.follow_up(port, id);
        }
    }

    /// Sends what the outbox holds.
    pub(crate) fn flush(&mut self, port: &mut dyn Port) {
        let Some(id) = self.outbox_to.take() else {
            return;
        };
        match port.send(id, &self.outbox) {
            Sent::Taken(taken) if taken >= self.outbox.len() => {}
            Sent::Taken(taken) => {
                let rest = self.outbox[taken..].to_vec();
                if let Some(connection) = self.get(id) {
                    connection.unsent.push_back(Unsent::own(rest));
                }
            }
            Sent::Gone => self.remove(id),
        }
        self.outbox.clear();
        self.settle(port, id);
    }

    /// The socket takes bytes again.
    pub(crate) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId) {
        self.send_unsent(port, id);
        self.settle(port, id);
    }

    fn send_unsent(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let now = self.now;
        let Some(connection) = self.get(id) else {
            return;
        };
        let mut gone = false;
        while let Some(unsent) = connection.unsent.front_mut() {
            match port.send(id, unsent.rest()) {
                Sent::Taken(taken) => {
                    connection.since = credited(connection.since, taken, now);
                    unsent.advance(taken);
                    if !unsent.rest().is_empty() {
                        break;
                    }
                    connection.unsent.pop_front();
                }
                Sent::Gone => {
                    gone = true;
                    break;
                }
            }
        }
        if connection.unsent.is_empty() {
            // Its memory too: an idle connection has none.
            connection.unsent = VecDeque::new();
        }
        if gone {
            self.remove(id);
        }
    }

    /// After anything that happened to a connection: closes it when it is done, takes note of what
    /// it waits for, and lets it go on where its stall is over.
    pub(crate) fn settle(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let (now, limits, draining) = (self.now, self.limits, self.draining);
        let in_outbox = self.outbox_to == Some(id);
        let Some(connection) = self.get(id) else {
            return;
        };
        let all_sent = connection.unsent.is_empty();
        let over = connection.closing
            || ((connection.peer_finished || draining && connection.requests > 0)
                && connection.under_way() == 0
                && connection.stall.is_none()
                && (connection.peer_finished || connection.tail.is_none()));
        if over && all_sent && !in_outbox {
            port.close(id);
            self.remove(id);
            return;
        }
        if !all_sent && connection.stall.is_none() && !connection.last_taken {
            connection.stall = Some(Stall::Output);
            port.pause(id);
        }
        let stall_over = match connection.stall {
            Some(Stall::Output) => all_sent,
            Some(Stall::Pipelined) => connection.under_way() <= limits.pipelined_max / 2,
            Some(Stall::Context) | None => false,
        };
        let waiting = if !all_sent {
            Waiting::Output
        } else if connection.under_way() > 0 || connection.stall.is_some() {
            Waiting::Answer
        } else {
            match &connection.tail {
                Some(tail) if tail.body.is_some() => Waiting::Body,
                // Empty lines are no request yet (RFC 9112, section 2.2).
                Some(tail) if tail.head.is_partial() => Waiting::Head,
                _ if connection.requests == 0 => Waiting::First,
                _ => Waiting::Idle,
            }
        };
        let fresh = match waiting {
            // These begin once a request: bytes that trickle in win no time.
            Waiting::First | Waiting::Head | Waiting::Body => {
                (connection.waiting, connection.since_requests) != (waiting, connection.requests)
            }
            // Progress was noted where it was made.
            Waiting::Output => connection.waiting != waiting,
            Waiting::Idle | Waiting::Answer => true,
        };
        if fresh {
            connection.since = now;
            connection.since_requests = connection.requests;
        }
        connection.waiting = waiting;
        let limit = match waiting {
            Waiting::First if draining => limits.header_timeout.min(DRAIN_GRACE),
            Waiting::First | Waiting::Head => limits.header_timeout,
            Waiting::Body => limits.body_timeout,
            Waiting::Idle | Waiting::Answer => limits.idle_timeout,
            Waiting::Output => limits.send_timeout,
        };
        let deadline = connection.since + limit;
        self.timers.set(id.slot(), deadline);
        if stall_over {
            self.unstalled.push(id);
        }
    }

    /// Whether [`Clients::next_unstalled`] has one to give.
    pub(crate) fn has_unstalled(&self) -> bool {
        !self.unstalled.is_empty()
    }

    /// A connection whose stall is over.
    pub(crate) fn next_unstalled(&mut self) -> Option<ConnectionId> {
        self.unstalled.pop()
    }

    /// When [`Clients::expire`] is due.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.timers.wake_at()
    }

    /// Deals with the timers that are due, but for requests that are to be answered 408, which it
    /// appends.
    pub(crate) fn expire(&mut self, port: &mut dyn Port, requests: &mut Vec<ConnectionId>) {
        let mut due = std::mem::take(&mut self.due);
        self.timers.expire(self.now, |slot| due.push(slot));
        for slot in due.drain(..) {
            let Some(connection) = self.connections[slot as usize].as_mut() else {
                continue;
            };
            let id = connection.id;
            match connection.waiting {
                Waiting::Head | Waiting::Body => requests.push(id),
                Waiting::First | Waiting::Idle => {
                    port.close(id);
                    self.remove(id);
                }
                Waiting::Output => {
                    port.abort(id);
                    self.remove(id);
                }
                // The answer has a deadline of its own.
                Waiting::Answer => self.timers.set(slot, self.now + self.limits.idle_timeout),
            }
        }
        self.due = due;
    }

    /// From now on every answer is its connection's last; those that wait for none are closed.
    pub(crate) fn drain(&mut self, port: &mut dyn Port) {
        self.draining = true;
        let idle: Vec<ConnectionId> = (self.connections.iter().flatten())
            .filter(|connection| connection.requests > 0 && connection.is_idle())
            .map(|connection| connection.id)
            .collect();
        for id in idle {
            port.close(id);
            self.remove(id);
        }
        // Their first request may be on its way.
        let limit = self.now + self.first_limit();
        for connection in self.connections.iter().flatten() {
            if connection.waiting == Waiting::First {
                self.timers.set(connection.id.slot(), limit);
            }
        }
    }

    /// Drops all connections.
    pub(crate) fn abort_all(&mut self, port: &mut dyn Port) {
        let all: Vec<ConnectionId> = self
            .connections
            .iter()
            .flatten()
            .map(|connection| connection.id)
            .collect();
        for id in all {
            port.abort(id);
            self.remove(id);
        }
    }
}

/// From when on a client is waited for that took so many bytes. They win it the time they take at
/// the least rate, so that a client that reads by the byte does not keep its slot.
fn credited(since: Time, taken: usize, now: Time) -> Time {
    let won = Duration::from_nanos((taken as u64).saturating_mul(1_000_000_000) / SEND_RATE_MIN);
    (since + won).min(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_reads_by_the_byte_wins_no_time() {
        let second = Duration::from_secs(1);
        let start = Time::from_nanos(5);
        let mut since = start;
        for seconds in 1..=30 {
            since = credited(since, 1, start + second * seconds);
        }
        assert!(since < start + second / 100);
        // At the least rate it is waited for from now on, and never from later.
        let now = start + second;
        assert_eq!(credited(start, SEND_RATE_MIN as usize, now), now);
        assert_eq!(credited(start, 1 << 30, now), now);
    }
}
