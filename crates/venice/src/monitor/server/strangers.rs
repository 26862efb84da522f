//! Connections that are no node's yet, in the order in which they came. They keep nobody out: where
//! all places are taken, or an address has its share of them, those that came first make way. An
//! agent has greeted long before it is one of those.

use crate::wire::NODES_MAX;
use rhythm_net::ConnectionId;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Those of one address. All agents may have the same (behind a router, or a cluster that is tried
/// on one machine), and all come at once when a monitor begins.
const OF_ADDRESS_MAX: usize = NODES_MAX;

/// How many make way at a time where all places are taken: others wait behind who came.
const ROOM: usize = 16;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Strangers(VecDeque<(ConnectionId, Option<IpAddr>)>);

impl Strangers {
    /// Somebody came from there: who makes way for it, if somebody has to.
    pub(super) fn come(&mut self, id: ConnectionId, from: Option<IpAddr>) -> Option<ConnectionId> {
        let from = from.map(|address| address.to_canonical());
        let mut all = self.0.iter();
        let first = all.position(|(_, other)| *other == from);
        let more = all.filter(|(_, other)| *other == from).count();
        let first = first.filter(|_| more + 1 >= OF_ADDRESS_MAX);
        let makes_way = first.and_then(|at| self.0.remove(at));
        self.0.push_back((id, from));
        makes_way.map(|(id, _)| id)
    }

    /// Who makes way where all places are taken.
    pub(super) fn make_room(&mut self) -> Vec<ConnectionId> {
        let count = self.0.len().min(ROOM);
        self.0.drain(..count).map(|(id, _)| id).collect()
    }

    /// Forgets those that are strangers no more, or gone.
    pub(super) fn keep(&mut self, is_stranger: impl Fn(ConnectionId) -> bool) {
        self.0.retain(|(id, _)| is_stranger(*id));
    }
}
