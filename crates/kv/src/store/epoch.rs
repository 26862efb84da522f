//! When memory may be used again: epochs.
//!
//! Readers take no lock and leave no mark on what they read, so who takes something out of the
//! table cannot know who still reads it. But a reader finds things only while it is *pinned*, and
//! holds none beyond that. So each worker says in which epoch it was pinned, and what is taken out
//! is *retired* with the number of an epoch; it is *free* when every worker that is pinned became
//! so in a later one.
//!
//! Why epochs and not versions: with versions a reader copies bytes that may change under it and
//! looks afterwards whether they did, which has to be done word by word with atomics (anything else
//! is a data race), and it can hand out copies only. With epochs items never change while they can
//! be seen, so values are sent from where they lie, and all that a worker pays for hundreds of gets
//! is one fence when it is pinned. The price is that memory comes back somewhat later.
//!
//! Why it is right: a worker stores its epoch, then a fence, then reads the table; a collector
//! takes out, then a fence, then loads the workers' epochs. Of two such fences one is first: either
//! the collector sees the worker's epoch, or the worker sees what was taken out. A worker that took
//! its epoch from a later retirement than the one in question has seen all that went before it.
//!
//! Who waits for memory says which epoch all others should have come to; a worker that is pinned in
//! an earlier one, and holds nothing just then, is pinned anew.

use super::atomic::{AtomicU64, Ordering, fence};

/// The epochs in which workers were pinned.
pub(super) struct Epochs {
    now: AtomicU64,
    /// The epoch that somebody waits for all who are pinned to come to.
    wanted: Apart,
    /// The epoch in which each worker was pinned, or [`NONE`].
    workers: Box<[Apart]>,
}

/// A number on a cache line of its own.
#[repr(align(128))]
struct Apart(AtomicU64);

const NONE: u64 = 0;

/// What was retired when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

impl Epochs {
    pub(super) fn new(workers: usize) -> Epochs {
        Epochs {
            now: AtomicU64::new(NONE + 1),
            wanted: Apart(AtomicU64::new(NONE)),
            workers: (0..workers).map(|_| Apart(AtomicU64::new(NONE))).collect(),
        }
    }

    /// A worker is pinned; where it is already, anew.
    #[inline]
    pub(super) fn pin(&self, worker: usize) {
        let now = self.now.load(Ordering::Acquire);
        self.workers[worker].0.store(now, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// A worker is no longer pinned.
    #[inline]
    pub(super) fn unpin(&self, worker: usize) {
        self.workers[worker].0.store(NONE, Ordering::Release);
    }

    /// Asks all who are pinned to be so anew, for what was retired until now to become free. Who
    /// waits for that asks again and again.
    pub(super) fn want(&self) {
        let now = self.now.load(Ordering::Acquire);
        self.wanted.0.store(now, Ordering::Relaxed);
    }

    /// Whether that was asked since a worker was pinned.
    #[inline]
    pub(super) fn is_wanted(&self, worker: usize) -> bool {
        let pinned = self.workers[worker].0.load(Ordering::Relaxed);
        pinned < self.wanted.0.load(Ordering::Relaxed)
    }

    /// The stamp of what nobody can find any more from now on.
    pub(super) fn retire(&self) -> Stamp {
        Stamp(self.now.fetch_add(1, Ordering::AcqRel))
    }

    /// All that was retired with this stamp or an earlier one is free; ask anew to learn of what
    /// changed since.
    pub(super) fn free(&self) -> Stamp {
        // Before the readers: what is retired from here on, one that is pinned meanwhile may see.
        let now = self.now.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let pinned = (self.workers.iter()).map(|worker| worker.0.load(Ordering::Acquire));
        let oldest = pinned.filter(|epoch| *epoch != NONE).min();
        Stamp(oldest.map_or(now, |oldest| oldest.min(now)) - 1)
    }
}
