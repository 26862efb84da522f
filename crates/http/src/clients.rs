//! All clients' connections of a thread: who is there, what each waits for, and how it ends.
//!
//! Requests of a connection are numbered as they are taken ([`Clients::accept`]), and answers go
//! out by these numbers (`turns.rs`, `stream.rs`). An idle connection has no buffer at all.
//!
//! The calls go one way: an answer is *written*, which may *flush* the outbox, which *settles* the
//! connection that it was for. `settle` is the one place that decides about pausing, closing and
//! time-outs; it writes and sends nothing.

use crate::answer::{AnswerShape, AnswerSlot, HostId};
use crate::connection::{Connection, Stall, Waiting};
use crate::input::Input;
use crate::limits::{ClientLimits, SEND_RATE_MIN};
use crate::outbox::Outbox;
use rhythm_net::{ConnectionId, ConnectionTable, Port, Time, TimerWheel};
use rhythm_protocol::http::request::RequestHead;
use std::net::SocketAddr;
use std::time::Duration;

/// A connection without a request is closed this long after draining has begun.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// All clients' connections of a thread.
#[derive(Debug)]
pub struct Clients {
    pub(crate) limits: ClientLimits,
    pub(crate) connections: ConnectionTable<Connection>,
    timers: TimerWheel,
    pub(crate) outbox: Outbox,
    /// Connections that may go on: their stall is over.
    unstalled: Vec<ConnectionId>,
    /// Answers in pieces that have room again.
    roomy: Vec<(HostId, AnswerSlot)>,
    /// Answers that hosts owe to clients that are gone.
    pub(crate) gone: Vec<(HostId, AnswerSlot)>,
    due: Vec<u32>,
    /// What the next input is read with.
    pub(crate) spare: Option<Box<Input>>,
    /// Every answer is the last of its connection.
    draining: bool,
}

impl Clients {
    /// No connections yet.
    pub fn new(limits: ClientLimits, now: Time) -> Clients {
        Clients {
            limits,
            connections: ConnectionTable::new(),
            timers: TimerWheel::new(now),
            outbox: Outbox::new(),
            unstalled: Vec::new(),
            roomy: Vec::new(),
            gone: Vec::new(),
            due: Vec::new(),
            spare: None,
            draining: false,
        }
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.connections.len()
    }

    /// Whether this is an open connection of a client.
    #[inline]
    pub fn has(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_some()
    }

    /// Whether every answer is the last of its connection.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// A connection was accepted.
    pub fn opened(&mut self, id: ConnectionId, peer: SocketAddr, now: Time) {
        let connection = Connection::new(peer, now);
        let old = self.connections.insert(id, connection);
        debug_assert!(old.is_none(), "a driver tells of a connection's end");
        let limit = self.first_limit();
        self.timers.set(id.slot(), now + limit);
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

    /// The client sends no more.
    pub fn peer_finished(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.peer_finished = true;
        if connection.receiving.is_some() {
            // The rest of that request's content will never come.
            port.abort(id);
            self.remove(id);
        } else {
            self.settle(port, id, now);
        }
    }

    /// Forgets a connection that is gone.
    pub fn remove(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id) {
            self.gone.extend(connection.hosted(id));
            self.timers.clear(id.slot());
        }
        self.outbox.forget(id);
    }

    /// What must hold between two events.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        for (id, connection) in self.connections.iter() {
            let buffers = connection.pending.capacity() + connection.outgoing.capacity();
            if connection.is_idle() && buffers != 0 {
                return Err(format!("{id:?} is idle and keeps a buffer"));
            }
            if connection.pending.len() as u32 > connection.under_way() {
                return Err(format!("{id:?} has answers to nothing"));
            }
        }
        self.outbox.check()
    }

    /// Takes one more request of a connection: the slot of its answer, what its form takes from the
    /// request, and where the client is. `None` where that is gone.
    #[inline]
    pub fn accept(
        &mut self,
        id: ConnectionId,
        head: &RequestHead,
    ) -> Option<(AnswerSlot, AnswerShape, SocketAddr)> {
        let (draining, requests_max) = (self.draining, self.limits.requests_max);
        let connection = self.connections.get_mut(id)?;
        let mut shape = connection.shape(head, requests_max);
        shape.close |= draining;
        let ordinal = connection.take_request(shape.close);
        let slot = AnswerSlot {
            connection: id,
            ordinal,
        };
        Some((slot, shape, connection.peer))
    }

    /// Takes what cannot be understood, or is not wanted, as a connection's last request, and reads
    /// no more from it: where the next one begins is not known.
    pub fn accept_last(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
    ) -> Option<(AnswerSlot, AnswerShape, SocketAddr)> {
        let connection = self.connections.get_mut(id)?;
        let slot = AnswerSlot {
            connection: id,
            ordinal: connection.take_request(true),
        };
        let shape = AnswerShape {
            close: true,
            ..AnswerShape::default()
        };
        port.pause(id);
        Some((slot, shape, connection.peer))
    }

    /// The form of an answer that is written now: whether the connection ends with it may have been
    /// decided since its request was taken. `None` where its client is gone.
    #[inline]
    pub fn shape_now(&mut self, slot: AnswerSlot, mut shape: AnswerShape) -> Option<AnswerShape> {
        let draining = self.draining;
        let connection = self.connections.get_mut(slot.connection)?;
        let ends = draining
            && slot.ordinal.wrapping_add(1) == connection.requests
            && connection.input.is_none();
        connection.last_taken |= ends;
        shape.close |= ends;
        Some(shape)
    }

    /// After anything that happened to a connection: closes it when it is done, takes note of what
    /// it waits for, and of a stall that is over and a stream that has room.
    pub(crate) fn settle(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let (limits, draining) = (&self.limits, self.draining);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let all_sent = connection.outgoing.is_empty();
        if connection.is_over(draining) && all_sent && !self.outbox.is_for(id) {
            port.close(id);
            self.remove(id);
            return;
        }
        if !all_sent && connection.stall.is_none() && !connection.last_taken {
            connection.stall = Some(Stall::Output);
            port.pause(id);
        }
        let waiting = connection.waits_for();
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
        let mut limit = waiting.limit(limits);
        if waiting == Waiting::First && draining {
            limit = limit.min(DRAIN_GRACE);
        }
        self.timers.set(id.slot(), connection.since + limit);
        if connection.stall_is_over(limits.pipelined_max) {
            self.unstalled.push(id);
        }
        if !connection.pending.is_empty() && connection.outgoing.unsent() <= limits.unsent_max / 2 {
            let next = connection.next_answer;
            let pending = (connection.pending.iter_mut()).find(|pending| pending.ordinal == next);
            if let Some(pending) = pending
                && pending.waits
                && let Some(host) = pending.host()
            {
                pending.waits = false;
                let slot = AnswerSlot {
                    connection: id,
                    ordinal: next,
                };
                self.roomy.push((host, slot));
            }
        }
    }

    /// Whether one of the lists below has one to give.
    pub fn has_news(&self) -> bool {
        !(self.unstalled.is_empty() && self.roomy.is_empty() && self.gone.is_empty())
    }

    /// A connection whose stall is over, for [`Clients::proceed`].
    pub fn next_unstalled(&mut self) -> Option<ConnectionId> {
        self.unstalled.pop()
    }

    /// An answer in pieces that has room again.
    pub(crate) fn next_roomy(&mut self) -> Option<(HostId, AnswerSlot)> {
        self.roomy.pop()
    }

    /// An answer that a host owes to a client that is gone.
    pub(crate) fn next_gone(&mut self) -> Option<(HostId, AnswerSlot)> {
        self.gone.pop()
    }

    /// A host takes the content of a request again: its stall is over.
    pub fn resume(&mut self, id: ConnectionId) {
        if (self.connections.get(id)).is_some_and(|c| c.stall == Some(Stall::Host)) {
            self.unstalled.push(id);
        }
    }

    /// When [`Clients::expire`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        self.timers.wake_at()
    }

    /// Deals with the timers that are due, but for requests that are to be answered 408, which it
    /// appends.
    pub fn expire(&mut self, port: &mut dyn Port, now: Time, requests: &mut Vec<ConnectionId>) {
        let mut due = std::mem::take(&mut self.due);
        self.timers.expire(now, |slot| due.push(slot));
        for slot in due.drain(..) {
            let Some(id) = self.connections.id_at(slot) else {
                continue;
            };
            let Some(connection) = self.connections.get(id) else {
                continue;
            };
            match connection.waiting {
                Waiting::Body if connection.receiving.is_some() => {
                    port.abort(id);
                    self.remove(id);
                }
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
                Waiting::Answer => self.timers.set(slot, now + self.limits.idle_timeout),
            }
        }
        self.due = due;
    }

    /// From now on every answer is its connection's last; those that wait for none are closed.
    pub fn drain(&mut self, port: &mut dyn Port, now: Time) {
        self.draining = true;
        let idle: Vec<ConnectionId> = (self.connections.iter())
            .filter(|(_, connection)| connection.requests > 0 && connection.is_idle())
            .map(|(id, _)| id)
            .collect();
        for id in idle {
            port.close(id);
            self.remove(id);
        }
        // Their first request may be on its way.
        let limit = now + self.first_limit();
        for (id, connection) in self.connections.iter() {
            if connection.waiting == Waiting::First {
                self.timers.set(id.slot(), limit);
            }
        }
    }

    /// Drops all connections.
    pub fn abort_all(&mut self, port: &mut dyn Port) {
        let all: Vec<ConnectionId> = self.connections.iter().map(|(id, _)| id).collect();
        for id in all {
            port.abort(id);
            self.remove(id);
        }
    }
}

/// From when on a client is waited for that took, or sent, so many bytes. They win it the time they
/// take at the least rate, so that a client that reads by the byte does not keep its slot.
pub(crate) fn credited(since: Time, bytes: u64, now: Time) -> Time {
    let won = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / SEND_RATE_MIN);
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
        assert_eq!(credited(start, SEND_RATE_MIN, now), now);
        assert_eq!(credited(start, 1 << 30, now), now);
    }
}
