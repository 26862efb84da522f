//! A donor's connections are bounded. Where there are as many as may be, one that has no loan yet
//! makes way for who comes (`guests.rs`): whoever reaches the donor can connect, and would keep
//! borrowers out by saying nothing.

use super::loans::{CONNECTIONS_MAX, Shared};
use crate::guests::Guest;
use std::fmt::Display;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

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
        let refused = |why: &dyn Display| shared.guests.refused("a connection", why);
        let guest = come.inspect_err(|error| refused(error)).ok()?;
        if guest.is_refused {
            refused(&format_args!("there are {CONNECTIONS_MAX}"));
            return None;
        }
        let shared = Arc::clone(shared);
        Some(Self { shared, guest })
    }

    /// A line about its being refused, where there are not too many.
    pub(super) fn refused(&self, peer: &str, why: &dyn Display) {
        self.guest.refused(peer, why);
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
