//! Where nodes are, for all workers of a front end: as flags say, or as loans come and go.

use rhythm_net::Peer;
use rhythm_venice::secret::Secret;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a node is.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its address.
    pub peer: Peer,
    /// What both ends have in common, if it has a key.
    pub key: Option<Secret>,
}

/// Places for so many nodes as there are at most, of which each may be vacant.
#[derive(Debug)]
pub struct Places {
    /// Counts what was changed.
    version: AtomicU64,
    slots: Mutex<Vec<Slot>>,
    trouble: Mutex<Option<String>>,
}

/// A place, and the version since which it is the one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) since: u64,
    pub(crate) place: Option<Place>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// These, which stay.
    pub fn fixed(places: Vec<Place>) -> Arc<Places> {
        let slot = |place| Slot {
            since: 0,
            place: Some(place),
        };
        Places::of(places.into_iter().map(slot).collect())
    }

    /// So many, all vacant.
    pub fn vacant(count: usize) -> Arc<Places> {
        Places::of(vec![Slot::default(); count])
    }

    fn of(slots: Vec<Slot>) -> Arc<Places> {
        Arc::new(Places {
            version: AtomicU64::new(0),
            slots: Mutex::new(slots),
            trouble: Mutex::default(),
        })
    }

    /// How many there are, vacant ones among them.
    pub fn count(&self) -> usize {
        lock(&self.slots).len()
    }

    /// A place has another node from now on, or none. Workers find out when they look next.
    pub fn set(&self, index: usize, place: Option<Place>) {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get_mut(index) {
            let since = self.version.load(Ordering::Relaxed) + 1;
            *slot = Slot { since, place };
            self.version.store(since, Ordering::Release);
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn slots(&self) -> Vec<Slot> {
        lock(&self.slots).clone()
    }

    /// Why a place is vacant, as was said last; none: none is, or nothing was said yet.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// Says why. True: nobody has said so before.
    pub(crate) fn say(&self, why: Option<&str>) -> bool {
        let mut trouble = lock(&self.trouble);
        let is_new = trouble.as_deref() != why;
        *trouble = why.map(str::to_owned);
        is_new
    }
}
