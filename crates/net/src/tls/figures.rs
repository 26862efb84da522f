//! What is counted of clients that speak TLS.

use std::sync::atomic::{AtomicU64, Ordering};

/// A worker's figures. Greetings cost so much more than counting them that they are counted with
/// whole atomic additions.
#[derive(Debug, Default)]
pub struct Figures {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
}

impl Figures {
    /// Greetings that went well: those in full, and those that went on from an earlier one.
    pub fn greeted(&self) -> [u64; 2] {
        [&self.full, &self.resumed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Greetings that failed: what came was none, or agreed with nothing of ours.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn has_greeted(&self, is_resumed: bool) {
        let count = match is_resumed {
            true => &self.resumed,
            false => &self.full,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn has_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}
