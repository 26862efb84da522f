//! What one who asks may hold of a pool: some of its connections, and some of the calls under way.
//!
//! Where answers come in order, a connection belongs to whoever has its oldest call: until the
//! answer comes, or its deadline, it is of no use to others. One whose calls hang would soon hold
//! them all. `next.rs` keeps to it.

use std::collections::HashMap;

/// Most that one who asks may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareOptions {
    /// Connections; `None`: half while others wait, and all but an eighth while nobody does, so
    /// that who comes next finds some.
    pub connections_max: Option<usize>,
    /// Calls taken over and not yet answered; beyond, they are refused.
    pub calls_max: usize,
}

impl ShareOptions {
    /// Most of so many connections, while others wait or not; at least 1.
    pub(super) fn connections_max(&self, all: usize, others_wait: bool) -> usize {
        let most = match (self.connections_max, others_wait) {
            (Some(most), _) => most,
            (None, true) => all.div_ceil(2),
            (None, false) => all.saturating_sub((all / 8).max(1)),
        };
        most.max(1)
    }
}

/// Calls under way, by who asked: of those who have any, no more than there are calls.
#[derive(Debug, Default)]
pub(super) struct UnderWay(HashMap<u64, usize>);

impl UnderWay {
    /// How many there are of one who asks.
    pub(super) fn of(&self, asker: u64) -> usize {
        self.0.get(&asker).copied().unwrap_or(0)
    }

    /// One more.
    pub(super) fn add(&mut self, asker: u64) {
        *self.0.entry(asker).or_default() += 1;
    }

    /// One less.
    pub(super) fn remove(&mut self, asker: u64) {
        let count = self.0.get_mut(&asker).expect("a call of his is under way");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&asker);
        }
    }
}
