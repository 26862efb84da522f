//! A donor's connections are bounded. Where there are as many as may be, one that has no loan yet
//! makes room for who comes, the oldest first: whoever reaches the donor can connect, and would
//! keep borrowers out by saying nothing.

use super::loans::{Shared, lock};
use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::info;

/// Connections at a time, of all borrowers.
const CONNECTIONS_MAX: usize = 256;

/// The connections that there are.
#[derive(Debug, Default)]
pub(super) struct Places {
    count: usize,
    next: u64,
    /// Those without a loan, by age, to be shut down.
    strangers: BTreeMap<u64, OwnedFd>,
}

/// A connection's place among them, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    number: u64,
    has_loan: AtomicBool,
}

impl Place {
    /// A place for who connects, if there is one.
    pub(super) fn take(shared: &Arc<Shared>, socket: &impl AsFd) -> Option<Self> {
        let socket = socket.as_fd().try_clone_to_owned();
        let socket = socket.inspect_err(|error| info!("a connection is refused: {error}"));
        let socket = socket.ok()?;
        let mut places = lock(&shared.places);
        if places.count < CONNECTIONS_MAX {
            places.count += 1;
        } else if let Some((_, oldest)) = places.strangers.pop_first() {
            // Its place is this one's from now on.
            let _ = shutdown(oldest, Shutdown::Both);
        } else {
            info!("a connection is refused: there are {CONNECTIONS_MAX}");
            return None;
        }
        let number = places.next;
        places.next += 1;
        places.strangers.insert(number, socket);
        Some(Self {
            shared: Arc::clone(shared),
            number,
            has_loan: AtomicBool::new(false),
        })
    }

    /// The connection has a loan, and keeps its place, unless it has just made room for another.
    pub(super) fn keep(&self) {
        let known = lock(&self.shared.places).strangers.remove(&self.number);
        if known.is_some() {
            self.has_loan.store(true, Ordering::Relaxed);
        }
    }
}

impl Deref for Place {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = lock(&self.shared.places);
        let known = places.strangers.remove(&self.number);
        if known.is_some() || self.has_loan.load(Ordering::Relaxed) {
            places.count -= 1;
        }
    }
}
