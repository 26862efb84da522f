//! What is asked of etcd, without waiting for news: the seam between who keeps something there and
//! etcd itself ([`Etcd`](crate::Etcd)), or what stands for it in a simulator or a test.

use crate::error::EtcdError;
use crate::transaction::{Change, Compare, Transaction};

/// A key under the prefix, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, behind the prefix and its slash.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The lease under which it is; 0: none.
    pub lease: i64,
}

/// When what was read was so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// etcd's revision: it grows with each change of any key.
    pub revision: i64,
    /// The term of etcd's own leader, which grows with each election: of no earlier leader than
    /// the one by whom a majority confirmed the read.
    pub term: u64,
}

/// A lease that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The seconds that it has again, as who renewed it has it.
    pub seconds: u64,
    /// A term of etcd's own leader, of no later one than who renewed it.
    pub term: u64,
}

/// See the head of this file.
#[expect(
    clippy::missing_errors_doc,
    reason = "all are the same: it does not answer, or it refuses"
)]
pub trait Store: Send {
    /// A lease of so many seconds, which a majority has: its number.
    fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError>;

    /// Renews a lease; none: there is no such lease any more. The member that took itself for
    /// etcd's leader did it, and asked nobody: see [`HeldLease`](crate::HeldLease).
    fn keep_alive(&mut self, lease: i64) -> Result<Option<Renewed>, EtcdError>;

    /// Ends a lease, and the keys under it, if it is there.
    fn revoke(&mut self, lease: i64) -> Result<(), EtcdError>;

    /// What stands at a key.
    fn get(&mut self, key: &str) -> Result<(Option<Entry>, At), EtcdError>;

    /// All keys under the prefix.
    fn entries(&mut self) -> Result<(Vec<Entry>, At), EtcdError>;

    /// The first keys of a folder that stand behind one of them, in order, at most so many; and
    /// whether there are more. A folder is what keys begin with up to a slash, which is left out.
    fn page(
        &mut self,
        folder: &str,
        behind: Option<&str>,
        most: usize,
    ) -> Result<(Vec<Entry>, bool), EtcdError>;

    /// Makes changes, all of them or none: where what it compares is not so, or a lease is not
    /// there. False: none. What is not answered in time is asked of the next server, so a
    /// transaction that has been done may find that what it compares is not so any more, and one
    /// that failed may be done yet.
    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError>;

    /// Waits a moment before it is asked again.
    fn rest(&mut self);

    /// Has a key under a lease, if there is none of it. Whether it has: where not, the lease that
    /// the key is under may still be this one, as what is answered too late is asked again.
    fn create(&mut self, key: &str, value: &str, lease: i64) -> Result<bool, EtcdError> {
        self.transact(&Transaction {
            compares: vec![Compare::Absent(key.to_owned())],
            changes: vec![Change::put(key, value, lease)],
        })
    }

    /// Has a key under a lease, whatever stood there; 0: under none. False: there is no such lease.
    fn put(&mut self, key: &str, value: &str, lease: i64) -> Result<bool, EtcdError> {
        self.transact(&Transaction {
            compares: Vec::new(),
            changes: vec![Change::put(key, value, lease)],
        })
    }

    /// Removes a key, if it is there.
    fn delete(&mut self, key: &str) -> Result<(), EtcdError> {
        let asked = self.transact(&Transaction {
            compares: Vec::new(),
            changes: vec![Change::Delete(key.to_owned())],
        });
        asked.map(drop)
    }
}
