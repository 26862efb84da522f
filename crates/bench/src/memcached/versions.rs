//! What each key may hold: the version that was acknowledged last, and the last that was written.
//!
//! A key is written by one request at a time, so that its versions are in order at the server, too,
//! and shared by all threads. A write that was lost on its way may still come about: its key is not
//! written any more, and holds either version.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is wrong with a version before the one that was acknowledged.
pub(crate) const OLDER: &str = "a value older than the one acknowledged";

/// And where there is none.
pub(crate) const GONE: &str = "a key that was stored is not there";

/// In the low half: a write is under way, or nobody knows what became of it.
const UNDER_WAY: u64 = 1 << 31;
/// Versions end here; no run writes a key so often.
const LAST: u64 = (1 << 31) - 1;

/// The versions of all keys of a server: the last that was written in the high half, the last that
/// was acknowledged in the low one.
#[derive(Debug)]
pub(super) struct Versions(Vec<AtomicU64>);

impl Versions {
    /// Of so many keys, none of which is stored.
    pub(super) fn new(keys: u32) -> Versions {
        Versions((0..keys).map(|_| AtomicU64::new(0)).collect())
    }

    fn at(&self, key: u32) -> &AtomicU64 {
        &self.0[key as usize]
    }

    /// Begins to write: the version to be written, or `None` where the key must not be written now.
    pub(super) fn begin(&self, key: u32) -> Option<u32> {
        let begun = |state: u64| {
            let written = state >> 32;
            let may = state & UNDER_WAY == 0 && written < LAST;
            may.then(|| (written + 1) << 32 | (state & LAST) | UNDER_WAY)
        };
        let before = self
            .at(key)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, begun);
        before.ok().map(|state| (state >> 32) as u32 + 1)
    }

    /// The write that was begun is over, as the server said: it is stored, or refused.
    pub(super) fn settle(&self, key: u32, is_stored: bool) {
        let state = self.at(key).load(Ordering::Acquire);
        let written = state >> 32;
        let acknowledged = if is_stored { written } else { state & LAST };
        self.at(key)
            .store(written << 32 | acknowledged, Ordering::Release);
    }

    /// The oldest version that who asks from now on may get.
    pub(super) fn oldest(&self, key: u32) -> u32 {
        (self.at(key).load(Ordering::Acquire) & LAST) as u32
    }

    /// The newest version that anybody may have got until now.
    pub(super) fn newest(&self, key: u32) -> u32 {
        (self.at(key).load(Ordering::Acquire) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_by_one_at_a_time_and_not_after_a_loss() {
        let versions = Versions::new(2);
        assert_eq!(versions.begin(1), Some(1));
        assert_eq!(versions.begin(1), None);
        assert_eq!((versions.oldest(1), versions.newest(1)), (0, 1));
        versions.settle(1, true);
        assert_eq!((versions.oldest(1), versions.newest(1)), (1, 1));
        assert_eq!(versions.begin(1), Some(2));
        versions.settle(1, false);
        assert_eq!((versions.oldest(1), versions.newest(1)), (1, 2));
        assert_eq!(versions.begin(1), Some(3));
        assert_eq!((versions.oldest(1), versions.newest(1)), (1, 3));
        assert_eq!(versions.begin(0), Some(1));
    }
}
