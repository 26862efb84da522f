//! How the ring is, for those who ask.

use super::super::view::{NodeStatus, RangeStatus, Status};
use super::super::wire::Claim;
use super::{Node, Sync};
use rhythm_net::Time;

impl Node {
    /// How the ring is, as far as this node knows.
    pub fn status(&self, now: Time) -> Status {
        let node = |node: usize| {
            let peer = &self.peers[node];
            NodeStatus {
                is_alive: self.is_alive(node),
                unacknowledged: peer.link.held(),
                lag: peer.link.lag(now),
                resent: peer.resent + peer.link.resent(),
                sent_bytes: peer.sent_bytes,
            }
        };
        let range = |range: usize| {
            let is_copy = |node: &usize| self.syncs[range][*node] == Sync::Done;
            let copies = (0..self.peers.len()).filter(is_copy);
            let claim = self.claims[range];
            // What an earlier life of this node claimed this one does not serve.
            let is_earlier = usize::from(claim.node) == self.me && !self.serves(range);
            RangeStatus {
                claim: if is_earlier { Claim::default() } else { claim },
                first: (self.around(range).find(|node| self.is_alive(*node)))
                    .map(|node| node as u8),
                targets: self.targets[range],
                copies: copies.fold(0, |set, node| set | 1 << node),
                is_complete: self.complete & 1 << range != 0,
                is_coming: self.incoming[range].is_some(),
            }
        };
        Status {
            nodes: (0..self.peers.len()).map(node).collect(),
            ranges: (0..self.ranges()).map(range).collect(),
            caught_up: self.caught_up,
            refused: self.refusals(now),
            is_kept_by: self.is_kept_by(now).map(str::to_owned),
        }
    }
}
