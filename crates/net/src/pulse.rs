//! Whether the loops of workers turn.

use crate::port::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// When a loop began the turn that it is at. A loop that waits needs no turn, so nobody wakes it to
/// see that it is well.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse(Arc<Began>);

/// In nanoseconds; 0 while it waits. The loop writes it twice a turn, so nothing else is to lie
/// beside it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Began(AtomicU64);

impl Pulse {
    /// The loop is about to wait until there is something to do.
    #[inline]
    pub(crate) fn waits(&self) {
        self.0.0.store(0, Ordering::Relaxed);
    }

    /// The loop has something to do from now on.
    #[inline]
    pub(crate) fn turns(&self, now: Time) {
        self.0.0.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// When the turn began that the loop is at, if it is at one.
    pub(crate) fn turn_began(&self) -> Option<Time> {
        match self.0.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Time::from_nanos(nanos)),
        }
    }
}
