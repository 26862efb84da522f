//! Figures: counted where things happen, read where they are told.
//!
//! A figure is one thread's, and only that thread writes it, so that counting is a load and a store
//! without a locked instruction or a shared cache line. Who tells adds up those of all threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only goes up, or, for gauges, is set. One thread writes it.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it. Not for two threads at once: one of them would be lost.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(more),
            Ordering::Relaxed,
        );
    }

    /// Sets it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by power of two: bucket i holds values up to `1 << (SHIFT + i)`, the last all others.
#[derive(Debug)]
pub struct Histogram<const SHIFT: u32, const BUCKETS: usize> {
    buckets: [Count; BUCKETS],
    sum: Count,
}

/// Of times in nanoseconds: 1 us to 67 s.
pub type TimeHistogram = Histogram<10, 28>;
/// Of cohort sizes: 1 to 65536, the most that `cohort.size` may be.
pub type SizeHistogram = Histogram<0, 18>;

impl<const SHIFT: u32, const BUCKETS: usize> Default for Histogram<SHIFT, BUCKETS> {
    fn default() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| Count::default()),
            sum: Count::default(),
        }
    }
}

impl<const SHIFT: u32, const BUCKETS: usize> Histogram<SHIFT, BUCKETS> {
    /// Counts a value, `times` times.
    #[inline]
    pub fn record(&self, value: u64, times: u64) {
        let above = 64 - value.saturating_sub(1).leading_zeros();
        let bucket = (above.saturating_sub(SHIFT) as usize).min(BUCKETS - 1);
        self.buckets[bucket].add(times);
        self.sum.add(value.saturating_mul(times));
    }

    /// What was counted up to each bound, from the first bucket on: the bound (infinite for the
    /// last) and how many values lie in its bucket.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().enumerate().map(|(index, count)| {
            let bound = if index + 1 == BUCKETS {
                f64::INFINITY
            } else {
                (1u64 << (SHIFT as usize + index)) as f64
            };
            (bound, count.get())
        })
    }

    /// The sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_values_up_to_their_bound() {
        let histogram = SizeHistogram::default();
        for value in [0, 1, 2, 3, 4, 5, 65_536, 65_537] {
            histogram.record(value, 1);
        }
        let counts: Vec<u64> = histogram.buckets.iter().map(Count::get).collect();
        assert_eq!(counts[..4], [2, 1, 2, 1]);
        // The largest cohort has a bound; what is larger has none.
        assert_eq!(counts[15..], [0, 1, 1]);
    }
}
