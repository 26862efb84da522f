//! Counts, a set for each thread, which alone adds to it: no two cores write to the same line.

use rhythm_observe::Count;
use std::marker::PhantomData;

/// Kinds of counts, an `enum` whose first has the number 0.
pub trait Kind: Copy {
    /// Its number.
    fn index(self) -> usize;
}

/// The counters of one thread, of so many kinds, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters<K, const KINDS: usize> {
    counts: [Count; KINDS],
    of: PhantomData<fn(K)>,
}

impl<K, const KINDS: usize> Default for Counters<K, KINDS> {
    fn default() -> Counters<K, KINDS> {
        Counters {
            counts: std::array::from_fn(|_| Count::default()),
            of: PhantomData,
        }
    }
}

impl<K: Kind, const KINDS: usize> Counters<K, KINDS> {
    /// Counts. Only the thread that has the counters does, so that no one else's count can be lost.
    #[inline]
    pub fn add(&self, kind: K, more: u64) {
        self.counts[kind.index()].add(more);
    }

    /// How many it were.
    pub fn get(&self, kind: K) -> u64 {
        self.counts[kind.index()].get()
    }
}
