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

/// Counts by power of two, each of which has `1 << FINE` buckets of one width: the first holds
/// values up to `1 << SHIFT`, the last all that no other does.
#[derive(Debug)]
pub struct Histogram<const SHIFT: u32, const BUCKETS: usize, const FINE: u32 = 0> {
    buckets: [Count; BUCKETS],
    sum: Count,
}

/// Of times in nanoseconds: 1 us to 67 s.
pub type TimeHistogram = Histogram<10, 28>;
/// The same, with two buckets a power of two: for times of which people ask percentiles.
pub type FineTimeHistogram = Histogram<10, 54, 1>;
/// Of a loop's turns in nanoseconds: 16 us to 17 ms, four to a doubling.
pub type TurnHistogram = Histogram<14, 42, 2>;
/// Of cohort sizes: 1 to 65536, the most that `cohort.size` may be.
pub type SizeHistogram = Histogram<0, 18>;

impl<const SHIFT: u32, const BUCKETS: usize, const FINE: u32> Default
    for Histogram<SHIFT, BUCKETS, FINE>
{
    fn default() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| Count::default()),
            sum: Count::default(),
        }
    }
}

impl<const SHIFT: u32, const BUCKETS: usize, const FINE: u32> Histogram<SHIFT, BUCKETS, FINE> {
    /// Counts a value, `times` times.
    #[inline]
    pub fn record(&self, value: u64, times: u64) {
        const { assert!(FINE <= SHIFT, "a bucket is one wide at least") };
        // A bound is in the bucket below it.
        let below = value.saturating_sub(1);
        let bucket = match below >> SHIFT {
            0 => 0,
            above => {
                let power = above.ilog2();
                let part = (below >> (power + SHIFT - FINE)) as usize & ((1 << FINE) - 1);
                1 + ((power as usize) << FINE) + part
            }
        };
        self.buckets[bucket.min(BUCKETS - 1)].add(times);
        self.sum.add(value.saturating_mul(times));
    }

    /// What was counted up to each bound, from the first bucket on: the bound (infinite for the
    /// last) and how many values lie in its bucket.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().enumerate().map(|(index, count)| {
            let bound = match index.checked_sub(1) {
                _ if index + 1 == BUCKETS => f64::INFINITY,
                None => (1u64 << SHIFT) as f64,
                Some(above) => {
                    let part = (above & ((1 << FINE) - 1)) + 1;
                    let base = 1u64 << (SHIFT as usize + (above >> FINE));
                    (base + ((base >> FINE) * part as u64)) as f64
                }
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
        let bounds = histogram.buckets().map(|(bound, _)| bound);
        assert!(bounds.take(4).eq([1.0, 2.0, 4.0, 8.0]));
    }

    #[test]
    fn fine_buckets_halve_each_power_of_two() {
        let told = |value| {
            let histogram = FineTimeHistogram::default();
            histogram.record(value, 1);
            let mut buckets = histogram.buckets();
            buckets.find_map(|(bound, count)| (count > 0).then_some(bound))
        };
        for (value, bound) in [
            (0, 1024.0),
            (1024, 1024.0),
            (1025, 1536.0),
            (1536, 1536.0),
            (1537, 2048.0),
            (2048, 2048.0),
            (2049, 3072.0),
            (1 << 36, (1u64 << 36) as f64),
            ((1 << 36) + 1, f64::INFINITY),
            (u64::MAX, f64::INFINITY),
        ] {
            assert_eq!(told(value), Some(bound), "{value}");
        }
    }

    #[test]
    fn a_doubling_may_have_several_buckets() {
        let bounds: Vec<f64> = (TurnHistogram::default().buckets())
            .map(|(bound, _)| bound)
            .collect();
        assert_eq!(
            bounds[..6],
            [16384., 20480., 24576., 28672., 32768., 40960.]
        );
        assert_eq!(bounds[40..], [16_777_216., f64::INFINITY]);
        for (index, bound) in bounds[..41].iter().enumerate() {
            for (value, is_in) in [(*bound as u64, index), (*bound as u64 + 1, index + 1)] {
                let histogram = TurnHistogram::default();
                histogram.record(value, 1);
                let counted: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();
                assert_eq!(counted.iter().position(|count| *count == 1), Some(is_in));
            }
        }
    }
}
