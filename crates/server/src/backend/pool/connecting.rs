//! Connections of a pool on their way to be used: opened when queries wait, and greeted.

use super::super::failure::Cause;
use super::super::wire::{Greeting, Unreadable, Wire};
use super::ConnectionPool;
use super::pipe::{Loss, Pipe, address_of};
use rhythm_net::{Port, Time};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

/// How long no other connection is opened after one could not be, while some stand or there was no
/// room for it.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);

impl<W: Wire> ConnectionPool<W> {
    /// Opens as many connections as the waiting queries need. `has_slow`: see there.
    pub(super) fn connect(&mut self, port: &mut dyn Port, has_slow: bool, now: Time) {
        let stands = self.pipes.iter().any(Pipe::is_open);
        if stands && self.connect_pause.is_some_and(|until| now < until) {
            return;
        }
        self.connect_pause = None;
        // They would have to wait there, too.
        if !self.any_may_go(has_slow, now) {
            return;
        }
        loop {
            let opening = self.pipes.iter().filter(|pipe| !pipe.is_open()).count();
            let [shared, alone] = self.waiting.counts();
            let wanted = match shared.div_ceil(self.depth()) + alone {
                // To see whether the other side is there at all, one is enough.
                wanted if !stands && self.connect_failures > 0 => wanted.min(1),
                wanted => wanted,
            };
            if opening >= wanted || self.connect_pause.is_some() {
                return;
            }
            if self.pipes.len() >= self.options.connections_max.max(1) {
                // One that owes answers that nobody waits for any more makes room.
                let Some(at) = self.pipes.iter().position(|pipe| pipe.is_spent()) else {
                    return;
                };
                port.abort(self.pipes.swap_remove(at).id);
            }
            self.connect_one(port, now);
        }
    }

    /// Begins to open a connection.
    fn connect_one(&mut self, port: &mut dyn Port, now: Time) {
        let peer = self.peers.get(self.peer_next % self.peers.len().max(1));
        self.peer_next = self.peer_next.wrapping_add(1);
        let Some(peer) = peer else {
            return self.connect_failed(None, now, ErrorKind::AddrNotAvailable, now);
        };
        match port.connect(peer).map_err(|error| error.kind()) {
            Ok(connection) => {
                let until = now + self.options.connect_timeout;
                self.pipes.push(Pipe::new(connection, peer, now, until));
                self.full_since = None;
            }
            // Nothing is left for another here: no failure of the backend's, and soon over.
            Err(ErrorKind::QuotaExceeded) => {
                self.connect_pause = Some(now + CONNECT_PAUSE);
            }
            Err(ErrorKind::WouldBlock) => self.queue_is_full(now),
            Err(why) => self.connect_failed(address_of(peer), now, why, now),
        }
    }

    /// The queue of its socket is full, where it has one of its own. That is soon over; where it is
    /// not, it is what an attempt is that takes too long elsewhere.
    fn queue_is_full(&mut self, now: Time) {
        self.connect_pause = Some(now + CONNECT_PAUSE);
        let timeout = self.options.connect_timeout;
        // What was seen long before tells nothing of the time since: nobody may have asked.
        let since = self.full_since.filter(|since| now < *since + 2 * timeout);
        let since = since.unwrap_or(now);
        self.full_since = Some(since);
        if now >= since + timeout {
            self.full_since = None;
            self.connect_failed(None, since, ErrorKind::WouldBlock, now);
        }
    }

    /// When something is to be done for a circuit that is open, where nobody asks.
    pub(super) fn probe_at(&self) -> Option<Time> {
        let Some(at) = self.circuit.probe_at() else {
            return self.circuit.calm_at();
        };
        let stands = self.pipes.iter().filter(|pipe| pipe.is_open());
        match stands.map(|pipe| pipe.begun).min() {
            // One that ends as it is opened was not.
            Some(begun) => Some(begun + self.options.circuit.cool_down),
            None if self.pipes.is_empty() => Some(at.max(self.connect_pause.unwrap_or(at))),
            None => None,
        }
    }

    /// That time may have come: a connection is opened, or one that was has stood for long enough.
    pub(super) fn probe(&mut self, port: &mut dyn Port, now: Time) {
        if self.probe_at().is_none_or(|at| now < at) {
            return;
        }
        if self.circuit.probe_at().is_none() {
            self.circuit.is_calm();
        } else if self.pipes.is_empty() {
            self.connect_one(port, now);
        } else {
            self.connect_failures = 0;
            self.circuit.stands();
        }
    }

    /// A connection to there, begun at that time, could not be opened. While others stand, there is
    /// only to wait; else it is the backend's failure. Those begun beside one that failed are the
    /// same: only one after the other they are several.
    pub(super) fn connect_failed(
        &mut self,
        address: Option<SocketAddr>,
        begun: Time,
        why: ErrorKind,
        now: Time,
    ) {
        if self.pipes.iter().any(Pipe::is_open) {
            self.connect_pause = Some(now + CONNECT_PAUSE);
            return;
        }
        if begun >= self.connect_failed_at {
            self.connect_failed_at = now;
            self.circuit.unreachable(why, now);
        }
        self.connect_failures += 1;
        if self.circuit.is_open() {
            self.refuse_waiting();
        } else if self.pipes.is_empty() && self.connect_failures >= self.peers.len().max(2) {
            self.connect_failures = 0;
            self.fail_waiting(Cause::Unreachable(why).at(address));
        }
    }

    /// Goes on with opening a connection, and says how it ended if it did.
    pub(super) fn greet(
        &mut self,
        at: usize,
        input: &[u8],
        port: &mut dyn Port,
        now: Time,
    ) -> Option<Loss> {
        let pipe = &mut self.pipes[at];
        let greeting = match pipe.greet(&mut self.wire, input) {
            Ok(greeting) => greeting,
            Err(Unreadable) => return Some(Loss::Unreadable),
        };
        if !pipe.flush(port) {
            return Some(Loss::Broken(None));
        }
        let Greeting::Done { used } = greeting else {
            return None;
        };
        pipe.open(now + self.options.idle_max);
        match &input[used..] {
            [] => None,
            rest => self.read(at, rest, now),
        }
    }

    /// A connection ended before it could be used.
    pub(super) fn drop_opening(
        &mut self,
        port: &mut dyn Port,
        at: usize,
        why: ErrorKind,
        now: Time,
    ) {
        let pipe = self.pipes.swap_remove(at);
        port.abort(pipe.id);
        self.connect_failed(pipe.address, pipe.begun, why, now);
    }
}
