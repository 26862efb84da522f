//! What other threads send a worker.

use crate::driver::waker::Waker;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Where other threads leave commands for a worker. Cheap to clone.
///
/// What is sent is kept until the worker takes it: senders are to be few, or to wait for answers.
pub struct Inbox<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    commands: Mutex<Vec<C>>,
    is_stopped: AtomicBool,
    has_ended: AtomicBool,
    waker: Waker,
}

impl<C> Clone for Inbox<C> {
    fn clone(&self) -> Inbox<C> {
        Inbox {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<C> fmt::Debug for Inbox<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl<C> Inbox<C> {
    pub(super) fn new() -> io::Result<Inbox<C>> {
        Ok(Inbox {
            shared: Arc::new(Shared {
                commands: Mutex::default(),
                is_stopped: AtomicBool::new(false),
                has_ended: AtomicBool::new(false),
                waker: Waker::new()?,
            }),
        })
    }

    /// Leaves a command and wakes the worker. For one that has ended, nothing happens.
    pub fn send(&self, command: C) {
        let commands = &self.shared.commands;
        commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(command);
        self.shared.waker.wake();
    }

    /// Has the worker leave its loop at once, whatever is under way.
    pub fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        self.shared.waker.wake();
    }

    /// Whether the worker's thread has ended, or is about to: it takes no more commands.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.shared.has_ended.store(true, Ordering::Release);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Acquire)
    }

    /// Moves what was sent into `commands`, behind what is there.
    pub(super) fn take(&self, commands: &mut impl Extend<C>) {
        let mut sent = self
            .shared
            .commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        commands.extend(sent.drain(..));
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.shared.waker
    }
}
