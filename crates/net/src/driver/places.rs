//! How many connections clients have, over all workers: files of the process that others need, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places for accepted connections, closing ones included, that several drivers share.
#[derive(Debug)]
pub struct Places {
    max: usize,
    taken: AtomicUsize,
}

/// A connection's place; dropped, it is free.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Places>);

impl Places {
    /// So many, all free.
    pub fn new(max: usize) -> Places {
        Places {
            max,
            taken: AtomicUsize::new(0),
        }
    }

    /// Whether there is one.
    pub(crate) fn has_room(&self) -> bool {
        self.taken.load(Ordering::Relaxed) < self.max
    }

    /// A place for one more connection, if there is one.
    pub(crate) fn take(self: &Arc<Places>) -> Option<Taken> {
        let more = |taken| (taken < self.max).then_some(taken + 1);
        (self.taken)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Taken(Arc::clone(self)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
