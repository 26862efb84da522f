//! Counts, a set for each worker, which alone adds to it: no two cores write to the same line.

use std::sync::atomic::{AtomicU64, Ordering};

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

const COUNTERS: usize = 8;

/// The counters of one worker.
#[repr(align(128))]
pub(super) struct Counters([AtomicU64; COUNTERS]);

impl Counters {
    pub(super) fn new() -> Counters {
        Counters([const { AtomicU64::new(0) }; COUNTERS])
    }

    /// Adds; for the worker alone.
    #[inline]
    pub(super) fn add(&self, counter: Counter, much: u64) {
        let counter = &self.0[counter as usize];
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(much),
            Ordering::Relaxed,
        );
    }

    /// The count now.
    pub(super) fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }
}
