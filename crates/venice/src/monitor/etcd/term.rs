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
    /// When who leads looked last whether it does.
    looked_at: AtomicU64,
    is_over: AtomicBool,
}

impl Term {
    pub(super) fn new(lease: i64, lasts: Duration, until: Time, now: Time) -> Term {
        Term {
            lease,
            lasts,
            until: AtomicU64::new(until.as_nanos()),
            looked_at: AtomicU64::new(now.as_nanos()),
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

    /// Who leads looks whether it does.
    pub(super) fn look(&self, now: Time) -> bool {
        self.looked_at.store(now.as_nanos(), Ordering::Release);
        self.stands(now)
    }

    /// When it did so last.
    pub(super) fn looked_at(&self) -> Time {
        Time::from_nanos(self.looked_at.load(Ordering::Acquire))
    }

    pub(super) fn prolong(&self, until: Time) {
        self.until.store(until.as_nanos(), Ordering::Release);
    }

    /// It is over.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}
