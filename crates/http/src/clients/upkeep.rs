//! What is seen to beside reading and answering: time-outs, stalls, ends, and what others are to be
//! told of it.
//!
//! [`Upkeep::settle`] is the one place that decides about pausing, closing and time-outs; it writes
//! and sends nothing.

use crate::answer::{AnswerSlot, HostId, Owed};
use crate::clients::connection::{Connection, Waiting};
use crate::clients::held::Held;
use crate::clients::no_room::NoRoom;
use crate::clients::stall::Stall;
use crate::limits::ClientLimits;
use rhythm_net::{ConnectionId, Port, Time, TimerWheel};
use rhythm_protocol::http::request::RequestHead;
use std::collections::VecDeque;
use std::time::Duration;

/// So long a head, or what follows it, may take whatever ends.
const SENDING_GRACE: Duration = Duration::from_secs(1);

/// As far behind the least rate who takes an answer may be whatever ends. A socket tells of what
/// was taken of it by the third: of the buffer that it has at first, in less than this at that
/// rate.
pub(crate) const TAKING_GRACE: Duration = Duration::from_secs(2);

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) limits: ClientLimits,
    pub(crate) timers: TimerWheel,
    /// Connections that may go on, longest first: their stall is over, or it is their turn next.
    pub(crate) unstalled: VecDeque<ConnectionId>,
    /// Connections that wait for room, and when the next goes on without; and the one after it, if
    /// that which was taken last is let through.
    pub(crate) no_room: NoRoom,
    pub(crate) room_at: Time,
    pub(crate) next_room_at: Time,
    /// Who went on last had waited for room.
    pub(crate) was_rooms_turn: bool,
    /// Answers in pieces that have room again.
    pub(crate) roomy: Vec<(HostId, AnswerSlot)>,
    /// Every answer is the last of its connection; until when those that are owed none may ask.
    pub(crate) drain: Option<Time>,
}

impl Upkeep {
    /// Nothing to see to yet.
    pub(crate) fn new(limits: ClientLimits, now: Time) -> Upkeep {
        Upkeep {
            limits,
            timers: TimerWheel::new(now),
            unstalled: VecDeque::new(),
            no_room: NoRoom::new(),
            room_at: now,
            next_room_at: now,
            was_rooms_turn: false,
            roomy: Vec::new(),
            drain: None,
        }
    }

    /// A connection's stall is over.
    pub(crate) fn may_go_on(&mut self, id: ConnectionId, connection: &mut Connection) {
        if !std::mem::replace(&mut connection.may_go_on, true) {
            self.unstalled.push_back(id);
        }
    }

    /// Until when what a connection waits for is waited for.
    pub(crate) fn deadline(&self, waiting: Waiting, since: Time) -> Time {
        let until = since + waiting.limit(&self.limits);
        match (waiting, self.drain) {
            (Waiting::First | Waiting::Idle, Some(drain)) => until.min(drain),
            // A request that is being sent when all others end is no reason to wait for long.
            (Waiting::Head | Waiting::Body, Some(drain)) => {
                until.min(drain.max(since + SENDING_GRACE))
            }
            // Nor an answer that nobody takes.
            (Waiting::Output, Some(drain)) => until.min(drain.max(since + TAKING_GRACE)),
            _ => until,
        }
    }

    /// Takes the next request of a connection; `more`: there is input behind it.
    #[inline]
    pub(crate) fn take(
        &self,
        id: ConnectionId,
        connection: &mut Connection,
        head: &RequestHead,
        more: bool,
    ) -> Owed {
        let mut shape = connection.shape(head, self.limits.requests_max);
        shape.close |= self.drain.is_some() && !more;
        connection.more = more;
        let slot = AnswerSlot {
            connection: id,
            ordinal: connection.take_request(shape.close),
        };
        connection.owe(slot, shape)
    }

    /// After anything that happened to a connection: closes it when it is done, takes note of what
    /// it holds and waits for, and of a stall that is over and a stream that has room.
    ///
    /// `is_sent`: the outbox has nothing for it. Whether the connection is gone: it is to be
    /// removed.
    #[must_use]
    pub(crate) fn settle(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        connection: &mut Connection,
        held: &mut Held,
        is_sent: bool,
        now: Time,
    ) -> bool {
        held.count(connection);
        held.now = now;
        let limits = &self.limits;
        let budget = held.budget(limits.unsent_max);
        let all_sent = connection.outgoing.is_empty();
        if connection.is_over() && all_sent && is_sent {
            port.close(id);
            return true;
        }
        // What goes on with a request that was taken does not wait for the client to read: it may
        // say all first. How much of it comes its host bounds.
        let asks_on = !connection.last_taken && connection.receiving.is_none();
        if !all_sent && connection.stall.is_none() && asks_on {
            connection.stop(Stall::Output);
            port.pause(id);
        }
        let waiting = connection.waits_for();
        let was_output = connection.waiting == Waiting::Output;
        if was_output && waiting != Waiting::Output && connection.is_midway() {
            connection.even_at = now + now.since(connection.since);
        }
        if is_sent && (connection.is_patient || matches!(waiting, Waiting::Head | Waiting::Body)) {
            // Whatever was sent: `100 Continue`, or answers before the last. Nor is who may as well
            // wait to be told of before those who do not.
            port.unanswered(id);
        }
        let fresh = match waiting {
            // These begin once a request: bytes that trickle in win no time.
            Waiting::First | Waiting::Head | Waiting::Body => {
                (connection.waiting, connection.since_requests) != (waiting, connection.requests)
            }
            // Progress was noted where it was made.
            Waiting::Output => !was_output,
            Waiting::Idle | Waiting::Answer => true,
        };
        if fresh {
            connection.since = match waiting {
                Waiting::Output => connection.output_since(now),
                _ => now,
            };
            connection.since_requests = connection.requests;
        }
        connection.waiting = waiting;
        // While it is for us, whatever timer is set may as well pass: nothing comes of it.
        if waiting != Waiting::Answer {
            let deadline = self.deadline(waiting, connection.since);
            self.timers.set(id.slot(), deadline);
        }
        if connection.stall_is_over(limits.pipelined_max, budget) {
            self.may_go_on(id, connection);
        }
        if !connection.pending.is_empty() && connection.outgoing.unsent() <= budget / 2 {
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
        false
    }
}

impl ClientLimits {
    /// From when on a client is waited for that took, or sent, so many bytes. They win it the time
    /// they take at the least rate, so that a client that reads by the byte does not keep its slot:
    /// over the whole of what it takes it may be behind that rate by its time-out, and no more.
    pub(crate) fn credited(&self, since: Time, bytes: u64, now: Time) -> Time {
        (since + self.won(bytes)).min(now)
    }

    /// The time that so many bytes win a client.
    pub(crate) fn won(&self, bytes: u64) -> Duration {
        let won = bytes.saturating_mul(1_000_000_000) / self.rate_min.max(1);
        Duration::from_nanos(won)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_reads_by_the_byte_wins_no_time() {
        let second = Duration::from_secs(1);
        let start = Time::from_nanos(5);
        let limits = ClientLimits::within(second);
        let mut since = start;
        for seconds in 1..=30 {
            since = limits.credited(since, 1, start + second * seconds);
        }
        assert!(since < start + second / 100);
        // At the least rate it is waited for from now on, and never from later.
        let now = start + second;
        assert_eq!(limits.credited(start, limits.rate_min, now), now);
        assert_eq!(limits.credited(start, 1 << 30, now), now);
    }
}
