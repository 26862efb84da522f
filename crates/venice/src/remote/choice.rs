//! Which channel an access takes (the paper's adaptive library, section 5.1.3): by its size, and by
//! how long either took on this link of late.
//!
//! What fits one operation of CRMA takes it: a transfer would be as many frames. For what is longer
//! the mean time of each channel is kept for each size (to a power of two) and direction; the
//! faster is taken, and the other now and then, the less often the slower it is, so that a link
//! that changes is noticed and what that costs is bounded to some hundredths.

use crate::channel::frame::CRMA_BYTES_MAX;
use std::time::Duration;

/// Sizes that are told apart; longer accesses are as the longest.
const SIZES: usize = 20;
/// Accesses of each channel before one is preferred.
const TRIALS: u32 = 6;
/// After so many accesses the other channel is tried, where it is not much slower.
const TRY_EVERY: u32 = 64;
/// So many times as seldom where it is.
const SELDOM: u32 = 16;
/// What much slower is.
const MUCH_SLOWER: f64 = 1.5;
/// How much the newest time counts in a mean.
const NEWEST: f64 = 1.0 / 8.0;
/// A time beyond so many means counts as this: the processor was somebody else's.
const OUTLIER: f64 = 4.0;

/// What carries an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Operations of a page at most, many under way.
    Crma,
    /// Transfers in chunks.
    Rdma,
}

/// Whether bytes come or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    mean: f64,
    count: u32,
}

impl Seen {
    fn add(&mut self, time: f64) {
        self.count = self.count.saturating_add(1);
        self.mean = match self.count {
            1 => time,
            // The first few are as good as each other, but for an outlier.
            count => {
                let newest = NEWEST.max(1.0 / f64::from(count));
                self.mean + newest * (time.min(OUTLIER * self.mean) - self.mean)
            }
        };
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    crma: Seen,
    rdma: Seen,
    since_tried: u32,
}

/// What was measured on a link.
#[derive(Debug, Default)]
pub(super) struct Choice {
    reads: [Size; SIZES],
    writes: [Size; SIZES],
}

impl Choice {
    fn size(&mut self, direction: Direction, bytes: usize) -> &mut Size {
        let pages = bytes.div_ceil(CRMA_BYTES_MAX).max(1);
        let size = (pages.ilog2() as usize).min(SIZES - 1);
        match direction {
            Direction::Read => &mut self.reads[size],
            Direction::Write => &mut self.writes[size],
        }
    }

    /// The channel for an access.
    pub(super) fn channel(&mut self, direction: Direction, bytes: usize) -> Channel {
        if bytes <= CRMA_BYTES_MAX {
            return Channel::Crma;
        }
        let size = self.size(direction, bytes);
        let (crma, rdma) = (size.crma, size.rdma);
        if crma.count.min(rdma.count) < TRIALS {
            return match crma.count < rdma.count {
                true => Channel::Crma,
                false => Channel::Rdma,
            };
        }
        let (best, other, ratio) = match crma.mean < rdma.mean {
            true => (Channel::Crma, Channel::Rdma, rdma.mean / crma.mean),
            false => (Channel::Rdma, Channel::Crma, crma.mean / rdma.mean),
        };
        let every = match ratio > MUCH_SLOWER {
            true => TRY_EVERY * SELDOM,
            false => TRY_EVERY,
        };
        size.since_tried += 1;
        if size.since_tried >= every {
            size.since_tried = 0;
            return other;
        }
        best
    }

    /// How long an access took.
    pub(super) fn took(
        &mut self,
        direction: Direction,
        bytes: usize,
        channel: Channel,
        time: Duration,
    ) {
        if bytes > CRMA_BYTES_MAX {
            let size = self.size(direction, bytes);
            let seen = match channel {
                Channel::Crma => &mut size.crma,
                Channel::Rdma => &mut size.rdma,
            };
            seen.add(time.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of 4000 accesses of a size, against that of the best channel alone.
    fn cost(choice: &mut Choice, bytes: usize, crma: f64, rdma: f64) -> f64 {
        let mut all = 0.0;
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..4000 {
            let channel = choice.channel(Direction::Read, bytes);
            let mean = if channel == Channel::Crma { crma } else { rdma };
            // One in fifty is kept from the processor.
            let stall = if random.u32(..50) == 0 { 100.0 } else { 0.0 };
            let time = mean * (0.8 + 0.4 * random.f64());
            all += time;
            let time = Duration::from_secs_f64((time + stall) * 1e-6);
            choice.took(Direction::Read, bytes, channel, time);
        }
        all / (4000.0 * crma.min(rdma))
    }

    #[test]
    fn the_better_channel_is_taken_but_for_a_few() {
        for (crma, rdma) in [(20.0, 30.0), (30.0, 20.0), (20.0, 100.0), (400.0, 20.0)] {
            let mut choice = Choice::default();
            let ratio = cost(&mut choice, 1 << 16, crma, rdma);
            assert!(ratio < 1.05, "{crma} {rdma}: {ratio}");
            // The link changes.
            let ratio = cost(&mut choice, 1 << 16, rdma, crma);
            assert!(ratio < 5.0, "{rdma} {crma}: {ratio}");
            let ratio = cost(&mut choice, 1 << 16, rdma, crma);
            assert!(ratio < 1.05, "later, {rdma} {crma}: {ratio}");
        }
    }

    #[test]
    fn what_fits_one_operation_is_one() {
        let mut choice = Choice::default();
        for bytes in [0, 1, 4096] {
            choice.took(Direction::Write, bytes, Channel::Rdma, Duration::ZERO);
            let channel = choice.channel(Direction::Write, bytes);
            assert_eq!(channel, Channel::Crma);
        }
        let long = usize::MAX;
        choice.took(Direction::Write, long, Channel::Rdma, Duration::ZERO);
        assert_eq!(choice.channel(Direction::Write, long), Channel::Crma);
    }
}
