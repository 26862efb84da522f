//! Which streams of a carrier have something to do. h2 tells by their wakers, and so does what sets
//! one going here: a round sees to these alone, however many others there are.
//!
//! All of it is on one thread; that a waker may be anywhere is how the standard library has it.

use rhythm_net::Key;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

/// Those that have, in the order in which that was told.
#[derive(Debug, Default)]
pub(crate) struct Ready(Mutex<Vec<Key>>);

impl Ready {
    fn keys(&self) -> MutexGuard<'_, Vec<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends them to `keys`, and forgets them.
    pub(crate) fn take(&self, keys: &mut Vec<Key>) {
        keys.append(&mut self.keys());
    }

    /// Gives memory back.
    pub(crate) fn shrink(&self) {
        self.keys().shrink_to(8);
    }
}

/// A stream's mark, which is set while it stands among those.
#[derive(Debug)]
pub(crate) struct Mark {
    key: Key,
    is_set: AtomicBool,
    ready: Arc<Ready>,
}

impl Mark {
    /// One that is not set.
    pub(crate) fn new(key: Key, ready: Arc<Ready>) -> Arc<Mark> {
        Arc::new(Mark {
            key,
            is_set: AtomicBool::new(false),
            ready,
        })
    }

    /// It has something to do.
    pub(crate) fn set(&self) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.ready.keys().push(self.key);
        }
    }

    /// It is seen to.
    pub(crate) fn clear(&self) {
        self.is_set.store(false, Ordering::Release);
    }
}

impl Wake for Mark {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}
