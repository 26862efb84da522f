//! How many clients are connected, over all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the clients that have a [`Place`].
#[derive(Debug, Default)]
pub struct Connected(Arc<AtomicUsize>);

/// A client's place. It is given back when it is dropped, however its thread ends.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Connected {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A place for one more client, and how many there are with it.
    pub fn enter(&self) -> (Place, usize) {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (Place(Arc::clone(&self.0)), before + 1)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back_whatever_happens_to_a_thread() {
        let connected = Connected::default();
        let (first, _) = connected.enter();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let (_place, count) = connected.enter();
                assert_eq!(count, 2);
                std::panic::resume_unwind(Box::new("it cannot go on"));
            });
            assert!(thread.join().is_err());
        });
        assert_eq!(connected.count(), 1);
        drop(first);
        assert_eq!(connected.count(), 0);
    }
}
