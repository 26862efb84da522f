//! Standing orders: what a server was told since its start. Threads that begin anew after a panic
//! find it here, and a handle on the server keeps this alone.

use crate::wire::Users;
use rhythm_net::Time;
use std::sync::{Arc, Mutex, PoisonError};

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Standing {
    users: Mutex<Arc<Users>>,
    ends_at: Mutex<Option<Time>>,
}

impl Standing {
    /// These users may come in, and it goes on.
    pub(super) fn new(users: Arc<Users>) -> Standing {
        Standing {
            users: Mutex::new(users),
            ends_at: Mutex::default(),
        }
    }

    /// Who may come in; empty: everybody.
    pub(crate) fn users(&self) -> Arc<Users> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&users)
    }

    /// From now on these may.
    pub(crate) fn set_users(&self, users: Arc<Users>) {
        *self.users.lock().unwrap_or_else(PoisonError::into_inner) = users;
    }

    /// When the server ends, whoever has not taken his answers by then; none: it goes on.
    pub(crate) fn ends_at(&self) -> Option<Time> {
        *self.ends_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It ends then, or when that was said before.
    pub(crate) fn end_at(&self, at: Time) {
        let mut ends_at = self.ends_at.lock().unwrap_or_else(PoisonError::into_inner);
        ends_at.get_or_insert(at);
    }
}
