//! What one who asks may hold of a pool: some of its connections, and some of the calls under way.
//!
//! Where answers come in order, a connection belongs to whoever has its oldest call: until the
//! answer comes, or its deadline, it is of no use to others. One whose calls hang would soon hold
//! them all. `next.rs` keeps to it.

use super::slots::slot_of;

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

/// Calls under way, by a hash of who asked.
#[derive(Debug)]
pub(super) struct UnderWay(Box<[u32; UnderWay::SLOTS]>);

impl Default for UnderWay {
    fn default() -> UnderWay {
        UnderWay(Box::new([0; UnderWay::SLOTS]))
    }
}

impl UnderWay {
    const SLOTS: usize = 256;

    /// How many there are of one who asks, and of those that meet in a slot.
    pub(super) fn of(&mut self, asker: u64) -> &mut u32 {
        &mut self.0[slot_of(asker, UnderWay::SLOTS)]
    }
}
