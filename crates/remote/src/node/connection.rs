//! A front end's connection, at the node.

use crate::wire::frame::Incoming;
use crate::wire::message::{self, Digest, Message};
use rhythm_net::{ConnectionId, Flushed, Outgoing, Port, Time};
use rhythm_venice::loan::LoanId;
use rhythm_venice::secret::Nonce;
use std::collections::VecDeque;
use std::time::Duration;

/// Messages without columns that wait to be taken, at most.
const TOLD_MAX: usize = 1024;
/// A connection that is owed answers all the while takes so many bytes of them in so long, or is
/// ended: others wait for the memory.
const TAKEN_MIN: u64 = 256 << 10;
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// Services that a connection has asked about and heard nothing of, at most.
const ASKED_MAX: usize = 64;
/// Of them, those whose sources are yet to be asked for: as many as a node keeps.
const WANTED_MAX: usize = 32;

/// A work that waits for its turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) token: u64,
    pub(super) digest: Digest,
    pub(super) bytes: Vec<u8>,
}

/// How far a service is that a front end has compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compiles {
    /// Its sources are asked for.
    Asked,
    /// They have come.
    Given(Digest),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Connection {
    /// The number that this end has said, until the other end has shown that it may be here.
    pub(super) nonce: Option<Nonce>,
    /// The loan that it was let in by.
    pub(super) loan: Option<LoanId>,
    pub(super) input: Incoming,
    output: Outgoing,
    /// Works that came, in their order.
    pub(super) queue: VecDeque<Queued>,
    /// Those included that run.
    pub(super) under_way: usize,
    /// Services that it has asked about and heard nothing of.
    pub(super) asked: usize,
    /// Those of them that nobody has: their sources are asked for one after the other.
    pub(super) wanted: VecDeque<Digest>,
    /// What is compiled for it, or will be when its sources come.
    pub(super) compiles: Option<Compiles>,
    /// What it was told since it had taken all.
    told: usize,
    /// Since when it has been owed something.
    owed: Time,
    /// How many bytes it had taken, and since when it has taken too few since.
    taken: (u64, Time),
    /// Until when something is to come.
    pub(super) deadline: Time,
    /// It is closed when all is sent.
    pub(super) is_ending: bool,
}

impl Connection {
    pub(super) fn new(nonce: Nonce, deadline: Time) -> Connection {
        Connection {
            nonce: Some(nonce),
            loan: None,
            input: Incoming::default(),
            output: Outgoing::new(),
            queue: VecDeque::new(),
            under_way: 0,
            asked: 0,
            wanted: VecDeque::new(),
            compiles: None,
            told: 0,
            // For the greeting it has as long as for what it says.
            owed: deadline,
            taken: (0, deadline),
            deadline,
            is_ending: false,
        }
    }

    /// Bytes that it has of the node.
    pub(super) fn held(&self) -> usize {
        let queued: usize = self.queue.iter().map(|queued| queued.bytes.len()).sum();
        self.input.len() + queued + self.output.unsent()
    }

    /// Bytes of what it was answered that it has not taken.
    pub(super) fn unsent(&self) -> usize {
        self.output.unsent()
    }

    /// Looks whether it takes what it was answered: all of it, or enough in some time. A byte now
    /// and then does not keep a connection.
    pub(super) fn is_stuck(&mut self, now: Time) -> bool {
        if self.output.is_empty() {
            self.begin_owing(now);
        }
        let taken = self.output.sent_total();
        if taken - self.taken.0 >= TAKEN_MIN {
            self.taken = (taken, now);
        }
        self.taken.1 + TAKEN_WITHIN <= now
    }

    /// Since when it has been owed something, where it is.
    pub(super) fn owed(&self) -> Time {
        self.owed
    }

    fn begin_owing(&mut self, now: Time) {
        self.owed = now;
        self.taken = (self.output.sent_total(), now);
    }

    /// Whether it asks for more than it takes, or waits for more than anybody has.
    pub(super) fn is_greedy(&self) -> bool {
        self.told > TOLD_MAX || self.asked > ASKED_MAX
    }

    /// Wants the sources of a service, behind those that it waits for already. False: they are too
    /// many.
    pub(super) fn want(&mut self, digest: Digest) -> bool {
        let has_room = self.wanted.len() < WANTED_MAX;
        if has_room {
            self.wanted.push_back(digest);
        }
        has_room
    }

    /// Whether all that was said has gone: one that takes nothing has no further turn.
    pub(super) fn has_taken_all(&self) -> bool {
        self.output.is_empty()
    }

    pub(super) fn say(&mut self, message: Message<'_>) {
        self.told = match self.output.is_empty() {
            true => 0,
            false => self.told + 1,
        };
        self.output.write(|out| message::put(message, out));
    }

    /// Appends a whole answer.
    pub(super) fn answer(&mut self, bytes: Vec<u8>, now: Time) {
        if self.output.is_empty() {
            self.begin_owing(now);
        }
        self.output.push_own(bytes);
    }

    /// Nothing is taken of it any more, and it is closed when what was said has gone, at the latest
    /// then.
    pub(super) fn begin_ending(&mut self, deadline: Time) {
        self.is_ending = true;
        self.queue.clear();
        self.deadline = deadline;
    }

    /// Sends what the socket takes. False: the connection is gone, or closed.
    pub(super) fn flush(&mut self, port: &mut dyn Port, id: ConnectionId) -> bool {
        let flushed = self.output.flush(port, id);
        self.after(port, id, flushed)
    }

    /// The socket takes bytes.
    pub(super) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId) -> bool {
        let flushed = self.output.writable(port, id);
        self.after(port, id, flushed)
    }

    fn after(&mut self, port: &mut dyn Port, id: ConnectionId, flushed: Flushed) -> bool {
        match flushed {
            Flushed::All if self.is_ending => {
                port.close(id);
                false
            }
            Flushed::All | Flushed::Some => true,
            Flushed::Gone => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_net::testing::TestPort;

    /// One that is owed so much, of which its socket has taken nothing, at a time.
    fn owed(bytes: usize, now: Time) -> (Connection, TestPort, ConnectionId) {
        let id = ConnectionId::new(1, 0);
        let mut port = TestPort::with(id, 0);
        let mut connection = Connection::new([0; 32], Time::ZERO);
        assert!(!connection.is_stuck(now), "it is owed nothing");
        connection.answer(vec![0; bytes], now);
        assert!(connection.flush(&mut port, id));
        (connection, port, id)
    }

    #[test]
    fn who_takes_little_for_a_while_is_stuck() {
        let mut now = Time::ZERO + 2 * TAKEN_WITHIN;
        let enough = TAKEN_MIN as usize;
        let (mut connection, mut port, id) = owed(5 * enough, now);
        let mut take = |connection: &mut Connection, bytes: usize| {
            port.at(id).room = bytes;
            assert!(connection.writable(&mut port, id));
        };
        for _ in 0..3 {
            assert!(!connection.is_stuck(now), "it takes enough of it");
            now += TAKEN_WITHIN;
            take(&mut connection, enough);
        }
        assert!(!connection.is_stuck(now));
        // A byte now and then is nothing.
        for _ in 0..9 {
            now += TAKEN_WITHIN / 10;
            take(&mut connection, 1);
            assert!(!connection.is_stuck(now));
        }
        now += TAKEN_WITHIN / 10;
        take(&mut connection, 1);
        assert!(connection.is_stuck(now));
        take(&mut connection, 2 * enough);
        assert!(connection.has_taken_all());
        assert!(!connection.is_stuck(now + TAKEN_WITHIN), "it has taken all");
    }

    #[test]
    fn it_is_owed_something_until_it_has_taken_all() {
        let start = Time::ZERO + TAKEN_WITHIN;
        let (mut connection, mut port, id) = owed(100, start);
        let later = start + TAKEN_WITHIN;
        connection.answer(vec![0; 100], later);
        assert_eq!((connection.owed(), connection.unsent()), (start, 200));
        port.at(id).room = 150;
        assert!(connection.writable(&mut port, id));
        assert_eq!((connection.owed(), connection.unsent()), (start, 50));
        port.at(id).room = 50;
        assert!(connection.writable(&mut port, id));
        connection.answer(vec![0; 10], later);
        assert_eq!((connection.owed(), connection.unsent()), (later, 10));
    }
}
