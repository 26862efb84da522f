//! A front end's connection, at the node.

use crate::wire::message::{self, Message};
use rhythm_net::{ConnectionId, Flushed, Outgoing, Port, Time};
use rhythm_venice::secret::Nonce;
use std::collections::VecDeque;
use std::time::Duration;

/// Messages without columns that wait to be taken, at most.
const TOLD_MAX: usize = 1024;
/// A connection that takes nothing of what it was answered for so long is ended: others wait for
/// the memory.
const STUCK_MAX: Duration = Duration::from_secs(10);
/// Services that a connection has asked about and heard nothing of, at most.
const ASKED_MAX: usize = 64;

/// A work that waits for its turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) token: u64,
    pub(super) digest: message::Digest,
    pub(super) bytes: Vec<u8>,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Connection {
    /// The number that this end has said, until the other end has shown that it may be here.
    pub(super) nonce: Option<Nonce>,
    pub(super) input: Vec<u8>,
    output: Outgoing,
    /// Works that came, in their order.
    pub(super) queue: VecDeque<Queued>,
    /// Those included that run.
    pub(super) under_way: usize,
    /// Services that it has asked about and heard nothing of.
    pub(super) asked: usize,
    /// What it was told since it had taken all.
    told: usize,
    /// How many bytes it had taken, and since when it has taken no more of those that it is owed.
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
            input: Vec::new(),
            output: Outgoing::new(),
            queue: VecDeque::new(),
            under_way: 0,
            asked: 0,
            told: 0,
            // For the greeting it has as long as for what it says.
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

    /// Looks whether it takes what it was answered.
    pub(super) fn is_stuck(&mut self, now: Time) -> bool {
        let taken = self.output.sent_total();
        if self.output.is_empty() || taken != self.taken.0 {
            self.taken = (taken, now);
        }
        self.taken.1 + STUCK_MAX <= now
    }

    /// Whether it asks for more than it takes, or waits for more than anybody has.
    pub(super) fn is_greedy(&self) -> bool {
        self.told > TOLD_MAX || self.asked > ASKED_MAX
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

    pub(super) fn say_bytes(&mut self, bytes: Vec<u8>) {
        self.output.push_own(bytes);
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

    #[test]
    fn who_takes_nothing_for_a_while_is_stuck() {
        let id = ConnectionId::new(1, 0);
        let mut port = TestPort::with(id, 10);
        let mut connection = Connection::new([0; 32], Time::ZERO);
        let mut now = Time::ZERO + 2 * STUCK_MAX;
        assert!(!connection.is_stuck(now), "it is owed nothing");
        connection.say_bytes(vec![0; 100]);
        assert!(connection.flush(&mut port, id));
        for _ in 0..3 {
            assert!(!connection.is_stuck(now), "it takes some of it");
            now += STUCK_MAX;
            port.at(id).room = 10;
            assert!(connection.writable(&mut port, id));
        }
        assert!(!connection.is_stuck(now));
        assert!(connection.is_stuck(now + STUCK_MAX));
        port.at(id).room = 100;
        assert!(connection.writable(&mut port, id));
        assert!(!connection.is_stuck(now + STUCK_MAX), "it has taken all");
    }
}
