//! Waking a driver from another thread: an eventfd, and a flag that saves the system call when the
//! driver is awake already.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes a driver call [`Handler::notified`](crate::Handler::notified). Cheap to clone, and to use
/// often.
///
/// Whatever the handler is to find must be where it looks before [`Waker::wake`] is called.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    eventfd: OwnedFd,
    /// Set from the first `wake` until the driver notices.
    pending: AtomicBool,
}

impl Waker {
    /// A waker that no driver knows yet; see [`Driver::waker`](crate::Driver::waker).
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub(crate) fn new() -> io::Result<Waker> {
        let eventfd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Waker {
            shared: Arc::new(Shared {
                eventfd,
                pending: AtomicBool::new(false),
            }),
        })
    }

    /// Wakes the driver. Several calls before it notices count as one.
    pub fn wake(&self) {
        // AcqRel on both sides chains the swaps: the driver's swap reads this one or a later one,
        // so it sees what was written before.
        if !self.shared.pending.swap(true, Ordering::AcqRel) {
            // Cannot fail but by a full counter, and then the driver is being woken anyway.
            let _ = rustix::io::write(&self.shared.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// The driver's side: takes note. A `wake` that comes later signals anew.
    pub(crate) fn clear(&self) {
        // The eventfd first: the other way round, a wake between the two would be swallowed with
        // its signal.
        let _ = rustix::io::read(&self.shared.eventfd, &mut [0u8; 8]);
        self.shared.pending.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for Waker {
    /// The eventfd, which is readable while the driver has not noticed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.eventfd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signalled(waker: &Waker) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(waker, &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }

    #[test]
    fn wakes_before_the_driver_notices_signal_once() {
        let waker = Waker::new().expect("few files are open");
        let other = waker.clone();
        waker.wake();
        other.wake();
        assert_eq!(signalled(&waker), 1);
    }

    #[test]
    fn a_wake_after_the_driver_noticed_signals_anew() {
        let waker = Waker::new().expect("few files are open");
        waker.wake();
        waker.clear();
        assert_eq!(signalled(&waker), 0);
        waker.wake();
        assert_eq!(signalled(&waker), 1);
    }
}
