//! A donor's connections are bounded. Where there are as many as may be, one that has no loan yet
//! makes way for who comes (`guests.rs`): whoever reaches the donor can connect, and would keep
//! borrowers out by saying nothing.

use super::loans::{CONNECTIONS_MAX, Shared};
use crate::guests::Guest;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tracing::info;

/// How long a connection may take to say whose it is.
pub(super) const HELLO_TIME: Duration = Duration::from_secs(5);

/// A connection's place among them, until dropped.
#[derive(Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    guest: Guest,
}

impl Place {
    /// A place for who connects, if there is one.
    pub(super) fn take(shared: &Arc<Shared>, socket: &impl AsFd) -> Option<Self> {
        let come = shared.guests.come(socket.as_fd());
        let guest = come.inspect_err(|error| info!("a connection is refused: {error}"));
        let guest = guest.ok()?;
        if guest.is_refused {
            info!("a connection is refused: there are {CONNECTIONS_MAX}");
            return None;
        }
        let shared = Arc::clone(shared);
        Some(Self { shared, guest })
    }

    /// The connection has a loan, and keeps its place, unless it has just made way for another.
    pub(super) fn keep(&self) {
        self.guest.stay();
    }
}

impl Deref for Place {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}
