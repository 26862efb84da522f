//! What has a relay end that waits for frames.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends what watches it, from any thread, for good.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_due: AtomicBool,
    /// Can be read from when it is due.
    event: OwnedFd,
}

impl Stop {
    /// One that is not due.
    ///
    /// # Errors
    /// What the kernel says: there are no descriptors.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let is_due = AtomicBool::new(false);
        Ok(Self(Arc::new(Inner { is_due, event })))
    }

    /// Ends it.
    pub fn end(&self) {
        self.0.is_due.store(true, Ordering::Release);
        // It cannot fail but where it is as high as it goes, and then it can be read, too.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    pub(crate) fn is_due(&self) -> bool {
        self.0.is_due.load(Ordering::Acquire)
    }

    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
