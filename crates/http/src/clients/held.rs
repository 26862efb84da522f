//! What connections hold, and who gives way when it is too much.
//!
//! A connection holds the input that no request was made of yet, the answers that are ready before
//! their turn or not whole, and the bytes that its client has not taken. It is bounded three times:
//!
//! ```text
//!   a connection   unsent_max     no request is taken, and no more of a stream is made, while its
//!                                 answers are more (`Connection::has_room`, `Clients::flow`)
//!   a thread       held_max / 2   from a connection one request at a time, and none before the
//!                                 answer to the one before is taken
//!                  held_max       the slowest are dropped, until it is half of that again
//! ```
//!
//! The first two keep what is reasonable from growing; they go by what answers are expected to
//! be. The third holds whatever comes: only the connection that is answered at the moment may be
//! beyond it, with one answer.
//!
//! What is counted is memory, not bytes of content: what the buffers have of the system.

use crate::clients::Clients;
use crate::clients::connection::{Connection, Waiting};
use rhythm_net::{ConnectionId, Port, Time};

/// What all connections of a thread hold. Each has its part noted in it ([`Connection::held`]).
#[derive(Debug)]
pub(crate) struct Held {
    /// Bytes now.
    pub(crate) total: usize,
    /// Most of them.
    max: usize,
    /// Connections that have given way.
    pub(crate) dropped: u64,
}

impl Held {
    /// Nothing is held yet, and so many bytes may be.
    pub(crate) fn new(max: usize) -> Held {
        Held {
            total: 0,
            max,
            dropped: 0,
        }
    }

    /// Counts what a connection holds by now.
    #[inline]
    pub(crate) fn count(&mut self, connection: &mut Connection) {
        let now = connection.memory();
        if now != connection.held {
            self.total = self.total - connection.held + now;
            connection.held = now;
        }
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        self.total -= connection.held;
    }

    /// Who has less of it is slower: who waits for us is not slow.
    fn haste(connection: &Connection) -> (bool, Time) {
        (connection.waiting == Waiting::Answer, connection.since)
    }

    /// Whether somebody has to give way.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.total > self.max
    }

    /// What a connection's answers may be, where the limit for each is this.
    #[inline]
    pub(crate) fn budget(&self, unsent_max: usize) -> usize {
        match self.total > self.max / 2 {
            // Nothing but the one answer that may always go on.
            true => 1,
            false => unsent_max,
        }
    }
}

impl Clients {
    /// Whether the request at hand, which was [taken](crate::Next::Request), fits what its
    /// connection may have under way, if its answer is as long as is expected. If not, it is to be
    /// [put back](Clients::put_back) with [`Stall::Output`](crate::Stall::Output).
    #[inline]
    pub fn has_room(&mut self, id: ConnectionId, expected: usize) -> bool {
        let budget = self.held.budget(self.upkeep.limits.unsent_max);
        match self.connections.get_mut(id) {
            Some(connection) => connection.has_room(expected, budget),
            None => true,
        }
    }

    /// Bytes that all connections hold.
    pub fn held(&self) -> usize {
        self.held.total
    }

    /// Connections that have given way, since the beginning.
    pub fn gave_way(&self) -> u64 {
        self.held.dropped
    }

    /// Counts what a connection holds by now.
    pub(crate) fn count(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.held.count(connection);
        }
    }

    /// Where more is held than may be, drops connections until it is half as much: of those that
    /// hold no less than the others on average, those first that have made no progress for longest.
    /// Not the one at hand, which is being answered.
    #[inline]
    pub(crate) fn relieve(&mut self, port: &mut dyn Port, at_hand: ConnectionId) {
        if self.held.is_over() {
            self.drop_slowest(port, at_hand);
        }
    }

    /// The connection that would be the last to give way.
    #[cold]
    pub(crate) fn fastest(&self) -> Option<ConnectionId> {
        let holders = (self.connections.iter()).filter(|(_, connection)| connection.held > 0);
        holders
            .map(|(id, connection)| (Held::haste(connection), id))
            .max()
            .map(|(_, id)| id)
    }

    #[cold]
    fn drop_slowest(&mut self, port: &mut dyn Port, at_hand: ConnectionId) {
        let enough = self.held.max / 2;
        let mut slowest = Vec::new();
        while self.held.total > enough {
            let holders = || {
                let all = self.connections.iter();
                all.filter(|(id, connection)| connection.held > 0 && *id != at_hand)
            };
            let (sum, count) = holders().fold((0, 0), |(sum, count), (_, connection)| {
                (sum + connection.held, count + 1)
            });
            if count == 0 {
                return;
            }
            let large = holders().filter(|(_, connection)| connection.held >= sum / count);
            slowest.extend(large.map(|(id, connection)| (Held::haste(connection), id)));
            slowest.sort_unstable();
            for (_, id) in slowest.drain(..) {
                if self.held.total <= enough {
                    break;
                }
                port.abort(id);
                self.remove(id);
                self.held.dropped += 1;
            }
        }
    }
}
