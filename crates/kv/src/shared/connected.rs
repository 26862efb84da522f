//! How many clients are connected, over all threads, and whether others wait to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the clients that have a [`Place`], and the threads at which others wait.
#[derive(Debug, Default)]
pub struct Connected {
    clients: Arc<AtomicUsize>,
    waits: Arc<AtomicUsize>,
}

/// A client's place, or that of a thread at which clients wait. It is given back when it is
/// dropped, however its thread ends.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Connected {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Whether clients wait at some thread.
    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0
    }

    /// Clients wait at one thread more.
    pub(crate) fn wait(&self) -> Place {
        self.waits.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(&self.waits))
    }

    /// A place for one more client, if there are fewer than `most`.
    pub fn enter(&self, most: usize) -> Option<Place> {
        let more = |count| (count < most).then_some(count + 1);
        (self.clients)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Place(Arc::clone(&self.clients)))
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
        let first = connected.enter(2);
        assert!(first.is_some());
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _place = connected.enter(2).expect("there is another");
                assert!(connected.enter(2).is_none());
                std::panic::resume_unwind(Box::new("it cannot go on"));
            });
            assert!(thread.join().is_err());
        });
        assert_eq!(connected.count(), 1);
        drop(first);
        assert_eq!(connected.count(), 0);
    }
}
