//! What a monitor needs of etcd.

use rhythm_etcd::{Entry, Etcd, EtcdError, Transaction};
use std::thread;
use std::time::Duration;

/// How long it is waited before etcd is asked again for what it did not answer.
const AGAIN: Duration = Duration::from_millis(50);

/// See the head of this file, and the methods of [`Etcd`] that are called alike.
#[expect(
    clippy::missing_errors_doc,
    reason = "all are those of `Etcd`: it does not answer, or it refuses"
)]
pub trait Store: Send {
    /// A lease of so many seconds: its number.
    fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError>;
    /// Renews a lease. False: there is no such lease any more.
    fn keep_alive(&mut self, lease: i64) -> Result<bool, EtcdError>;
    /// Ends a lease, and the keys under it.
    fn revoke(&mut self, lease: i64) -> Result<(), EtcdError>;
    /// What stands at a key, and the revision at which that is so.
    fn get(&mut self, key: &str) -> Result<(Option<Entry>, i64), EtcdError>;
    /// The first keys of a folder behind one of them, and whether there are more.
    fn page(
        &mut self,
        folder: &str,
        behind: Option<&str>,
        most: usize,
    ) -> Result<(Vec<Entry>, bool), EtcdError>;
    /// Makes changes, all of them or none.
    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError>;
    /// Waits a moment before it is asked again.
    fn rest(&mut self);
}

impl Store for Etcd {
    fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError> {
        Etcd::grant(self, seconds)
    }

    fn keep_alive(&mut self, lease: i64) -> Result<bool, EtcdError> {
        Ok(Etcd::keep_alive(self, lease)?.is_some())
    }

    fn revoke(&mut self, lease: i64) -> Result<(), EtcdError> {
        Etcd::revoke(self, lease)
    }

    fn get(&mut self, key: &str) -> Result<(Option<Entry>, i64), EtcdError> {
        Etcd::get(self, key)
    }

    fn page(
        &mut self,
        folder: &str,
        behind: Option<&str>,
        most: usize,
    ) -> Result<(Vec<Entry>, bool), EtcdError> {
        Etcd::page(self, folder, behind, most)
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError> {
        Etcd::transact(self, transaction)
    }

    fn rest(&mut self) {
        thread::sleep(AGAIN);
    }
}
