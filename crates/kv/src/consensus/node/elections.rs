//! What a node knows of elections: who is there, and how often it asked for votes in vain.

use std::collections::BTreeMap;

/// How long a follower waits at least, in ticks.
pub(super) const TICKS: usize = 10;
/// Times two to the power of so many it waits at most.
pub(super) const DOUBLED_MAX: u32 = 2;
/// No follower waits so long.
pub(super) const TICKS_MAX: usize = (2 * TICKS) << DOUBLED_MAX;
/// Campaigns of a node before it waits longer.
pub(super) const CAMPAIGNS_SHORT: u32 = 2;
/// A node that was heard of in so many ticks is there, for the leader, however long its answers
/// take.
const HEARD_TICKS: u64 = 40;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Elections {
    /// When nodes were last heard of, in ticks.
    heard: BTreeMap<u64, u64>,
    /// Terms in which this one asked for votes, since somebody led; and the last of them.
    pub(super) campaigns: u32,
    pub(super) term: u64,
}

impl Elections {
    pub(super) fn heard_of(&mut self, node: u64, tick: u64) {
        self.heard.insert(node, tick);
    }

    pub(super) fn is_there(&self, node: u64, tick: u64) -> bool {
        let heard = self.heard.get(&node);
        heard.is_some_and(|heard| tick <= heard + HEARD_TICKS)
    }
}
