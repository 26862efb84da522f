//! For how long a monitor leads.

use rhythm_net::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The time for which a monitor leads: as long as its lease is prolonged. Once it is over it stays
/// so, and its lease is given up.
#[derive(Debug)]
pub struct Term {
    lease: i64,
    lasts: Duration,
    until: AtomicU64,
    is_over: AtomicBool,
}

impl Term {
    pub(super) fn new(lease: i64, lasts: Duration, until: Time) -> Term {
        Term {
            lease,
            lasts,
            until: AtomicU64::new(until.as_nanos()),
            is_over: AtomicBool::new(false),
        }
    }

    /// Its lease: of no other term.
    pub(super) fn lease(&self) -> i64 {
        self.lease
    }

    /// For how long the lease is given, and given again.
    pub(super) fn lasts(&self) -> Duration {
        self.lasts
    }

    /// When it ends, unless it is prolonged.
    pub fn until(&self) -> Time {
        match self.is_over.load(Ordering::Acquire) {
            true => Time::ZERO,
            false => Time::from_nanos(self.until.load(Ordering::Acquire)),
        }
    }

    /// Whether it is not over at that time.
    pub fn stands(&self, now: Time) -> bool {
        now < self.until()
    }

    pub(super) fn prolong(&self, until: Time) {
        self.until.store(until.as_nanos(), Ordering::Release);
    }

    /// It is over.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}
