//! What one who asks may hold of a pool: some of its connections, and some of the calls under way
//! and of their bytes.
//!
//! Where answers come in order, a connection belongs to whoever has its oldest call: until the
//! answer comes, or its deadline, it is of no use to others. One whose calls hang would soon hold
//! them all. `next.rs` keeps to it. As much may be held by the slow queries of one call, whoever
//! asks (`statements.rs`).
//!
//! What cannot be sent again cannot be taken back either, however slow it turns out to be
//! (`alone.rs`).

use std::collections::HashMap;

/// Most that one who asks may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareOptions {
    /// Connections; `None`: half while others wait, and all but an eighth while nobody does, so
    /// that who comes next finds some; of what cannot be sent again, a quarter.
    pub connections_max: Option<usize>,
    /// Calls taken over and not yet answered; beyond, they are refused.
    pub calls_max: usize,
}

impl ShareOptions {
    /// Most of so many connections, while others wait or not; at least 1.
    pub(super) fn connections_max(&self, all: usize, others_wait: bool) -> usize {
        match self.connections_max {
            Some(most) => most.max(1),
            None => most_of(all, others_wait),
        }
    }

    /// Most of so many connections that are held by what cannot be sent again of those who hold
    /// one by it already, beyond these.
    pub(super) fn further_max(&self, all: usize) -> usize {
        let of_one = self.connections_max.unwrap_or(all / 4);
        of_one.saturating_sub(1)
    }
}

/// Most of so many connections that one may hold where nothing else is said: half while others
/// wait, and all but an eighth while nobody does; at least 1.
pub(super) fn most_of(all: usize, others_wait: bool) -> usize {
    match others_wait {
        true => all.div_ceil(2).max(1),
        false => all.saturating_sub((all / 8).max(1)).max(1),
    }
}

/// Calls under way, by who asked: of those who have any, no more than there are calls.
#[derive(Debug, Default)]
pub(super) struct UnderWay(HashMap<u64, Held>);

/// What one who asks has under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) calls: usize,
    /// Bytes that are kept of them.
    pub(super) bytes: usize,
}

impl Held {
    /// Whether who holds this may have so many bytes more, of which so many are left. Who has some
    /// has more only while no less is left to others then: one has half of all at most, two have a
    /// third each, and so on, and whoever comes next finds some.
    pub(super) fn may_have(self, bytes: usize, left: usize) -> bool {
        let left = left.checked_sub(bytes);
        left.is_some_and(|left| self.calls == 0 || self.bytes + bytes <= left)
    }
}

impl UnderWay {
    /// What one who asks has.
    pub(super) fn of(&self, asker: u64) -> Held {
        self.0.get(&asker).copied().unwrap_or_default()
    }

    /// One more, of so many bytes.
    pub(super) fn add(&mut self, asker: u64, bytes: usize) {
        let held = self.0.entry(asker).or_default();
        held.calls += 1;
        held.bytes += bytes;
    }

    /// One less.
    pub(super) fn remove(&mut self, asker: u64, bytes: usize) {
        let held = self.0.get_mut(&asker).expect("a call of his is under way");
        held.calls -= 1;
        held.bytes -= bytes;
        if held.calls == 0 {
            self.0.remove(&asker);
        }
    }
}
