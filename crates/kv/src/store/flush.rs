//! Flushes: from a moment on, all items that are older are not valid. Nothing is looked through for
//! it; who finds an item asks whether it was flushed.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Seconds behind a flush's in which an item may have been accessed that was there before it: its
/// own, and the next, as not all threads' seconds begin at one moment.
const UNSURE: u32 = 2;

/// The last flush, and the one to come.
#[derive(Default)]
pub(super) struct Flushes {
    /// Items last accessed in this second or before are gone; 0: none.
    until: AtomicU32,
    /// Of items last accessed in the [`UNSURE`] seconds behind it those with a CAS id below this
    /// one are gone; 0: none. Later ones may have ids that clients chose, however low.
    cas: AtomicU64,
    /// The same as `until`, from that second on.
    next: AtomicU32,
    /// Held by who changes any of them.
    changing: Mutex<()>,
}

/// The same, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flushed {
    pub(super) until: u32,
    pub(super) cas: u64,
    pub(super) next: u32,
}

impl Flushes {
    /// As they were, for who finds them again.
    pub(super) fn flushed(&self) -> Flushed {
        Flushed {
            until: self.until.load(Ordering::Acquire),
            cas: self.cas.load(Ordering::Acquire),
            next: self.next.load(Ordering::Acquire),
        }
    }

    /// With these.
    pub(super) fn with(flushed: Flushed) -> Flushes {
        Flushes {
            until: flushed.until.into(),
            cas: flushed.cas.into(),
            next: flushed.next.into(),
            changing: Mutex::default(),
        }
    }

    /// What was accessed in the second `until` or before is gone from that second on; if that is
    /// now or was, so is what is there with a CAS id below `cas`, which all that has that was not
    /// given one by a client. It takes the place of a flush that was to come.
    pub(super) fn flush(&self, until: u32, now: u32, cas: u64) {
        let changing = self.changing.lock();
        let _changing = changing.unwrap_or_else(PoisonError::into_inner);
        self.come_about(now);
        let last = now.saturating_sub(1);
        if until > now {
            self.next.store(until, Ordering::Release);
            // As in memcached the last flush counts: what is stored in the rest of this second
            // stays. (There, what an earlier flush took would come back, too.)
            if cas != 0 && self.until.load(Ordering::Acquire) >= now {
                self.cas.fetch_max(cas, Ordering::AcqRel);
                self.until.fetch_min(last, Ordering::AcqRel);
            }
        } else {
            self.next.store(0, Ordering::Release);
            self.cas.fetch_max(cas, Ordering::AcqRel);
            self.until.store(until.max(last), Ordering::Release);
        }
    }

    /// Did a flush that was to come take effect? Says so once.
    pub(super) fn settle(&self, now: u32) -> bool {
        if !self.is_due(now) {
            return false;
        }
        let changing = self.changing.lock();
        let _changing = changing.unwrap_or_else(PoisonError::into_inner);
        self.come_about(now)
    }

    fn is_due(&self, now: u32) -> bool {
        let next = self.next.load(Ordering::Acquire);
        next != 0 && next <= now
    }

    /// The same, for who has the lock.
    fn come_about(&self, now: u32) -> bool {
        let is_due = self.is_due(now);
        if is_due {
            let next = self.next.load(Ordering::Acquire);
            let until = self.until.load(Ordering::Acquire);
            if until.saturating_add(UNSURE) <= next {
                // All that an earlier flush took, this one takes. First, as `next` says so until
                // the end.
                self.cas.store(0, Ordering::Release);
            }
            self.until.fetch_max(next, Ordering::AcqRel);
            self.next.store(0, Ordering::Release);
        }
        is_due
    }

    /// Is an item gone that was last accessed then and has this CAS id (0: none)?
    #[inline]
    pub(super) fn took(&self, accessed: u32, cas: u64, now: u32) -> bool {
        let next = self.next.load(Ordering::Acquire);
        let until = self.until.load(Ordering::Acquire);
        let is_unsure = accessed <= until.saturating_add(UNSURE);
        accessed <= until
            || (is_unsure && cas != 0 && cas < self.cas.load(Ordering::Acquire))
            || (next != 0 && next <= now && accessed <= next)
    }
}
