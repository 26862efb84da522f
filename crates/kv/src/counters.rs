//! Counts, a set for each thread, which alone adds to it: no two cores write to the same line.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of counts, an `enum` whose first has the number 0.
pub trait Kind: Copy {
    /// Its number.
    fn index(self) -> usize;
}

/// The counters of one thread, of so many kinds, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters<K, const KINDS: usize> {
    counts: [AtomicU64; KINDS],
    of: PhantomData<fn(K)>,
}

impl<K, const KINDS: usize> Default for Counters<K, KINDS> {
    fn default() -> Counters<K, KINDS> {
        Counters {
            counts: [const { AtomicU64::new(0) }; KINDS],
            of: PhantomData,
        }
    }
}

impl<K: Kind, const KINDS: usize> Counters<K, KINDS> {
    /// Counts. Only the thread that has the counters does, so that no one else's count can be lost.
    #[inline]
    pub fn add(&self, kind: K, more: u64) {
        let counter = &self.counts[kind.index()];
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(more),
            Ordering::Relaxed,
        );
    }

    /// How many it were.
    pub fn get(&self, kind: K) -> u64 {
        self.counts[kind.index()].load(Ordering::Relaxed)
    }
}
