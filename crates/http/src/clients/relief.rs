//! Who gives way when connections hold too much (`held.rs`).

use crate::clients::Clients;
use crate::clients::held::Held;
use crate::clients::upkeep::TAKING_GRACE;
use rhythm_net::{ConnectionId, Port, Time};

/// So many are found at a time that are to give way, in one look at all connections. They are
/// dropped one by one, as others need what they hold: each takes the system some time, in which
/// nobody is served.
const SLOWEST_MAX: usize = 64;

impl Clients {
    /// Bytes that all connections hold.
    pub fn held(&self) -> usize {
        self.held.total
    }

    /// Bytes that all connections may hold beside what they do, until from each one request at a
    /// time is taken.
    pub fn room(&self) -> usize {
        (self.held.max / 2).saturating_sub(self.held.total)
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

    /// Where more is held than may be, drops connections until it is not: those first that have
    /// made no progress for a while, then the others. Of either, of those that hold no less than
    /// the others on average, the slowest. Not the one at hand, which is being answered.
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
        while self.held.is_over() {
            let Some((haste, id)) = self.slowest.pop() else {
                self.find_slowest(at_hand);
                if self.slowest.is_empty() {
                    return;
                }
                continue;
            };
            if self.is_slow(id, haste, at_hand) {
                port.abort(id);
                self.remove(id);
                self.held.dropped += 1;
            }
        }
    }

    /// Since when the connection that would give way to this one has made no progress, if there is
    /// one that would.
    pub(crate) fn slowest_since(&mut self, at_hand: ConnectionId) -> Option<Time> {
        let mut is_known = true;
        loop {
            match self.slowest.last().copied() {
                Some((haste, id)) if self.is_slow(id, haste, at_hand) => return Some(haste.1),
                Some(_) => drop(self.slowest.pop()),
                None if is_known => {
                    is_known = false;
                    self.find_slowest(at_hand);
                }
                None => return None,
            }
        }
    }

    /// Whether a connection has made no progress since it was found to be slow.
    fn is_slow(&self, id: ConnectionId, haste: (bool, Time), at_hand: ConnectionId) -> bool {
        (self.connections.get(id)).is_some_and(|connection| {
            connection.held > 0 && Held::haste(connection) == haste && id != at_hand
        })
    }

    /// Finds those that are to give way next, the slowest last.
    fn find_slowest(&mut self, at_hand: ConnectionId) {
        let slower_than = |until: (bool, Time)| {
            let all = self.connections.iter();
            all.filter(move |(id, connection)| {
                connection.held > 0 && *id != at_hand && Held::haste(connection) <= until
            })
        };
        let now = self.held.now.since(Time::ZERO);
        let while_ago = Time::ZERO + now.saturating_sub(TAKING_GRACE);
        let untils = [(false, while_ago), (true, Time::from_nanos(u64::MAX))];
        let found = untils.into_iter().find_map(|until| {
            let (sum, count) = slower_than(until).fold((0, 0), |(sum, count), (_, connection)| {
                (sum + connection.held, count + 1)
            });
            (count > 0).then(|| (until, sum / count))
        });
        let Some((until, average)) = found else {
            return;
        };
        let large = slower_than(until).filter(|(_, connection)| connection.held >= average);
        let found = large.map(|(id, connection)| (Held::haste(connection), id));
        self.slowest.extend(found);
        if self.slowest.len() > SLOWEST_MAX {
            self.slowest.select_nth_unstable(SLOWEST_MAX);
            self.slowest.truncate(SLOWEST_MAX);
        }
        self.slowest.sort_unstable_by(|a, b| b.cmp(a));
    }
}
