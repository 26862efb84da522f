//! What went through a relay, counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one end; any thread reads them.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) sent: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) came: AtomicU64,
    pub(super) came_bytes: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// What was counted so far. Frames are as they went over the QPair: with offload, one may have what
/// goes out as 44 of 1500 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames to the other end.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames from it.
    pub came: u64,
    /// Their bytes.
    pub came_bytes: u64,
    /// Of these, those that the kernel did not take (no frames, or the interface is down), or was
    /// not given: where a donor routes, what is neither ARP nor IPv4 from the borrower's address.
    pub refused: u64,
    /// Frames that the kernel dropped because the other end did not take them fast enough.
    pub dropped: u64,
}

impl Figures {
    pub(super) fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }

    /// So far; what the kernel dropped for the interface is read elsewhere.
    pub(super) fn counted(&self, dropped: u64) -> Counted {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counted {
            sent: read(&self.sent),
            sent_bytes: read(&self.sent_bytes),
            came: read(&self.came),
            came_bytes: read(&self.came_bytes),
            refused: read(&self.refused),
            dropped,
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} frames ({} bytes) sent and {} dropped; {} frames ({} bytes) came, {} of them no \
             good",
            self.sent, self.sent_bytes, self.dropped, self.came, self.came_bytes, self.refused
        )
    }
}
