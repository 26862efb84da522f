//! What the store counts.

use crate::counters::Kind;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// Items that were stored.
    Stored,
    /// Bytes of items that were put into the table ...
    BytesIn,
    /// ... and that left it.
    BytesOut,
    Evicted,
    EvictedUnfetched,
    Expired,
    ExpiredUnfetched,
    Refused,
}

impl Kind for Counter {
    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

/// The counters of one worker.
pub(super) type Counters = crate::counters::Counters<Counter, { Counter::Refused as usize + 1 }>;
