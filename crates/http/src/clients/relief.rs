//! Who gives way when connections hold too much (`held.rs`).

use crate::clients::Clients;
use crate::clients::held::Held;
use rhythm_net::{ConnectionId, Port};

/// Of what may be held, this part is freed at once when it is too much. Each connection that is
/// dropped takes the system some time, in which nobody is served.
const RELIEF: usize = 16;

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

    /// Where more is held than may be, drops connections until it is somewhat less: of those that
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
        let enough = self.held.max - self.held.max / RELIEF;
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
