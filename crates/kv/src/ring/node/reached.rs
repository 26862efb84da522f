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

/// So often it counts that one that was lost comes as far as before.
const BACK_MAX: u32 = 3;

/// How far others came with what a node that leaves sends them. Where one begins anew, as often as
/// it may, it does not come further before it is where it was; but for the first times that it was
/// lost, which may be a moment's silence.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// By range and node.
    pub(super) furthest: BTreeMap<(usize, usize), (Leg, u64)>,
    pub(super) steps: u64,
    /// How often each was lost, as far as that counts.
    lost: BTreeMap<usize, u32>,
}

impl Reached {
    /// A node is lost: what it is to have it is sent anew.
    pub(super) fn lose(&mut self, node: usize) {
        let times = self.lost.entry(node).or_default();
        if *times < BACK_MAX {
            *times += 1;
            self.furthest.retain(|(_, of), _| *of != node);
        }
    }

    pub(super) fn come(&mut self, who: (usize, usize), place: (Leg, u64)) {
        let furthest = self.furthest.entry(who).or_default();
        if place > *furthest {
            *furthest = place;
            self.steps += 1;
        }
    }
}
