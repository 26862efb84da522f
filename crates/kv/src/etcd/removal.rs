//! A node is asked to leave.

use super::registration::{leave_key, registered};
use rhythm_etcd::{Change, Etcd, EtcdError, Transaction};
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
    let is_there = |etcd: &mut Etcd| {
        let all = registered(etcd)?;
        Ok::<bool, EtcdError>(all.iter().any(|member| member.name == name))
    };
    if !is_there(etcd)? {
        return Ok(false);
    }
    let lease = etcd.grant(ASKED_FOR)?;
    etcd.transact(&Transaction {
        compares: Vec::new(),
        changes: vec![Change::put(&leave_key(name), "", lease)],
    })?;
    while is_there(etcd)? {
        thread::sleep(LOOK_EVERY);
    }
    etcd.revoke(lease)?;
    Ok(true)
}
