//! A node is asked to leave.

use super::keys::{leave_key, registered};
use rhythm_etcd::{Etcd, EtcdError, Store};
use std::thread;
use std::time::Duration;

/// How often it is looked whether it has left.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Seconds after which it is asked no more, where who asked is gone.
const ASKED_FOR: u64 = 3600;

/// Asks a node to leave, and waits until it has. Whether there is one of this name.
///
/// # Errors
/// etcd does not answer, or refuses. The node may have been asked by then.
pub fn remove(etcd: &mut Etcd, name: &str) -> Result<bool, EtcdError> {
    let Some(removal) = Removal::ask(etcd, name)? else {
        return Ok(false);
    };
    while !removal.has_left(etcd)? {
        thread::sleep(LOOK_EVERY);
    }
    Ok(true)
}

/// A node that was asked to leave.
pub(super) struct Removal<'a> {
    name: &'a str,
    lease: i64,
}

impl<'a> Removal<'a> {
    /// Asks one, if there is one of this name.
    pub(super) fn ask(
        store: &mut impl Store,
        name: &'a str,
    ) -> Result<Option<Removal<'a>>, EtcdError> {
        if !is_there(store, name)? {
            return Ok(None);
        }
        let lease = store.grant(ASKED_FOR)?;
        store.put(&leave_key(name), "", lease)?;
        Ok(Some(Removal { name, lease }))
    }

    /// Whether it has; then nobody is asked any more.
    pub(super) fn has_left(&self, store: &mut impl Store) -> Result<bool, EtcdError> {
        if is_there(store, self.name)? {
            return Ok(false);
        }
        store.revoke(self.lease)?;
        Ok(true)
    }
}

fn is_there(store: &mut impl Store, name: &str) -> Result<bool, EtcdError> {
    let all = registered(store)?;
    Ok(all.iter().any(|member| member.name == name))
}
