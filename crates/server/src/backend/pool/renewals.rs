//! Renewals: how often a connection is given up for the slow query that holds it.
//!
//! That costs another connection, which to some backends is a process, with nothing prepared; and
//! what the query had the backend do is done in vain, since most notice only when they answer.
//! Where calls hang it is little beside what others gain. But where the backend just has more to do
//! than it can, its longer calls look the same, and to ask them again leaves it less time for all.
//! So connections may be renewed as often as there are, and from then on a few within a time-out.
//!
//! What stands behind a slow query and goes elsewhere is bounded likewise, by itself: its
//! connection still has to answer it, to nobody. Of one number for both, a backend that is busy for
//! moments would leave nothing to take connections back with from calls that hang.

use rhythm_net::Time;
use std::time::Duration;

/// So many may be renewed within the time that a query may take, beyond the first.
const WITHIN_TIMEOUT: u32 = 4;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Renewals {
    /// How many may follow at once.
    burst: u32,
    /// One more may after this time.
    every: Duration,
    /// When as many as ever may be renewed again.
    full_at: Time,
}

impl Renewals {
    /// Of so many connections, where a query may take so long.
    pub(super) fn new(connections: usize, timeout: Duration) -> Renewals {
        Renewals {
            burst: u32::try_from(connections).unwrap_or(u32::MAX).max(1),
            every: timeout / WITHIN_TIMEOUT,
            full_at: Time::ZERO,
        }
    }

    /// Whether one may be renewed now.
    pub(super) fn is_left(&self, now: Time) -> bool {
        self.next_at() <= now
    }

    /// When one may be.
    pub(super) fn next_at(&self) -> Time {
        let others = self.every.saturating_mul(self.burst - 1);
        Time::ZERO + self.full_at.since(Time::ZERO).saturating_sub(others)
    }

    /// One is renewed.
    pub(super) fn take(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_often_as_there_are_and_then_now_and_then() {
        let second = |s: u64| Time::from_nanos(s * 1_000_000_000);
        let mut renewals = Renewals::new(3, Duration::from_secs(8));
        let mut now = second(100);
        for _ in 0..3 {
            assert!(renewals.is_left(now));
            renewals.take(now);
        }
        assert!(!renewals.is_left(now));
        assert_eq!(renewals.next_at(), second(102));
        now = second(105);
        for _ in 0..2 {
            assert!(renewals.is_left(now));
            renewals.take(now);
        }
        assert_eq!(renewals.next_at(), second(106));
        // After a while it is as at the beginning.
        now = second(200);
        (0..3).for_each(|_| renewals.take(now));
        assert_eq!(renewals.next_at(), second(202));
    }
}
