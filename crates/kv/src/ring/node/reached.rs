//! How far others came with what a node that leaves sends them.

use std::collections::BTreeMap;

/// How far a node is with a range that it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leg {
    /// It waits for the next walk.
    #[default]
    Waits,
    /// The walk sends it what it meets.
    Comes,
    /// It was sent all, and looks for what it has beside.
    Looks,
    /// It has the range complete.
    Done,
}

/// How far others came with what a node that leaves sends them. Where one begins anew, as often as
/// it may, it does not come further before it is where it was.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// By range and node.
    pub(super) furthest: BTreeMap<(usize, usize), (Leg, u64)>,
    pub(super) steps: u64,
}

impl Reached {
    pub(super) fn come(&mut self, who: (usize, usize), place: (Leg, u64)) {
        let furthest = self.furthest.entry(who).or_default();
        if place > *furthest {
            *furthest = place;
            self.steps += 1;
        }
    }
}
