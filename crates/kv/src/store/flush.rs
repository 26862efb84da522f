//! Flushes: from a moment on, all items that are older are not valid. Nothing is looked through for
//! it; who finds an item asks whether it was flushed.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The last flush, and the one to come.
#[derive(Default)]
pub(super) struct Flushes {
    /// Items last accessed in this second or before are gone; 0: none.
    until: AtomicU32,
    /// Items with a CAS id below this one are gone.
    cas: AtomicU64,
    /// The same as `until`, from that second on.
    next: AtomicU32,
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
        }
    }

    /// What was accessed in the second `until` or before is gone from that second on; if that is
    /// now or was, so is all with a CAS id below `cas`, which all that is there has. It takes the
    /// place of a flush that was to come.
    pub(super) fn flush(&self, until: u32, now: u32, cas: u64) {
        self.settle(now);
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
        let next = self.next.load(Ordering::Acquire);
        let due = next != 0 && next <= now;
        if due {
            self.until.fetch_max(next, Ordering::AcqRel);
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            return (self.next.compare_exchange(next, 0, order.0, order.1)).is_ok();
        }
        false
    }

    /// Is an item gone that was last accessed then and has this CAS id (0: none)?
    #[inline]
    pub(super) fn took(&self, accessed: u32, cas: u64, now: u32) -> bool {
        let next = self.next.load(Ordering::Acquire);
        accessed <= self.until.load(Ordering::Acquire)
            || (cas != 0 && cas < self.cas.load(Ordering::Acquire))
            || (next != 0 && next <= now && accessed <= next)
    }
}
