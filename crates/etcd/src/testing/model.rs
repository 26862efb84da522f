//! What etcd knows, in memory: keys, leases, and who leads it.

use crate::store::{At, Entry, Renewed};
use crate::transaction::{Change, Compare, Transaction};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Changes that etcd takes in one transaction, unless it is told otherwise.
const CHANGES_MAX: usize = 128;

/// A lease.
#[derive(Clone, Copy, Debug)]
struct Lease {
    seconds: u64,
    until: Time,
}

/// See the head of this file. Its time goes on by [`begin`](Model::begin) alone.
#[derive(Clone, Debug, Default)]
pub struct Model {
    now: Time,
    keys: BTreeMap<String, Entry>,
    leases: BTreeMap<i64, Lease>,
    last: i64,
    at: At,
}

impl Model {
    /// It is this late by now: leases that are over end, with the keys under them.
    pub fn begin(&mut self, now: Time) {
        self.now = self.now.max(now);
        let is_over = |lease: &Lease| lease.until <= self.now;
        let over = self.leases.iter().filter(|(_, lease)| is_over(lease));
        let over: Vec<i64> = over.map(|(number, _)| *number).collect();
        over.into_iter().for_each(|number| self.revoke(number));
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.now
    }

    /// All keys, in order.
    pub fn keys(&self) -> &BTreeMap<String, Entry> {
        &self.keys
    }

    /// The leases that are there.
    pub fn leases(&self) -> impl Iterator<Item = i64> {
        self.leases.keys().copied()
    }

    /// When it is.
    pub fn at(&self) -> At {
        self.at
    }

    /// A lease, which is looked for so much later than it is over.
    pub fn grant(&mut self, seconds: u64, slack: Duration) -> i64 {
        self.last += 1;
        let until = self.now + Duration::from_secs(seconds) + slack;
        self.leases.insert(self.last, Lease { seconds, until });
        self.last
    }

    /// Renews a lease, if it is there.
    pub fn renew(&mut self, number: i64, slack: Duration) -> Option<Renewed> {
        let lease = self.leases.get_mut(&number)?;
        lease.until = self.now + Duration::from_secs(lease.seconds) + slack;
        Some(Renewed {
            seconds: lease.seconds,
            term: self.at.term,
        })
    }

    /// What a leader says of a lease that was deposed in a term and does not know it: nothing comes
    /// of it.
    pub fn renew_in_vain(&self, number: i64, term: u64) -> Option<Renewed> {
        let seconds = self.leases.get(&number)?.seconds;
        Some(Renewed { seconds, term })
    }

    /// Another member leads, and gives all leases their time again.
    pub fn elect(&mut self, slack: Duration) {
        self.at.term += 1;
        for lease in self.leases.values_mut() {
            lease.until = self.now + Duration::from_secs(lease.seconds) + slack;
        }
    }

    /// Ends a lease, if it is there, and the keys under it.
    pub fn revoke(&mut self, number: i64) {
        self.leases.remove(&number);
        self.keys.retain(|_, entry| entry.lease != number);
        self.at.revision += 1;
    }

    /// Makes changes, all of them or none.
    pub fn transact(&mut self, transaction: &Transaction) -> bool {
        let Transaction { compares, changes } = transaction;
        assert!(changes.len() <= CHANGES_MAX, "etcd takes no more");
        let holds = compares.iter().all(|compare| match compare {
            Compare::Absent(key) => !self.keys.contains_key(key),
            Compare::Under(key, lease) => {
                (self.keys.get(key)).is_some_and(|entry| entry.lease == *lease)
            }
            Compare::Is(key, value) => {
                (self.keys.get(key)).is_some_and(|entry| entry.value == *value)
            }
        });
        let has_leases = changes.iter().all(|change| match change {
            Change::Put { lease, .. } => *lease == 0 || self.leases.contains_key(lease),
            Change::Delete(_) => true,
        });
        if !holds || !has_leases {
            return false;
        }
        for change in changes {
            match change.clone() {
                Change::Put { key, value, lease } => {
                    let entry = Entry {
                        key: key.clone(),
                        value,
                        lease,
                    };
                    self.keys.insert(key, entry);
                }
                Change::Delete(key) => drop(self.keys.remove(&key)),
            }
        }
        self.at.revision += 1;
        true
    }

    /// The first keys of a folder behind one of them, and whether there are more.
    pub fn page(&self, folder: &str, behind: Option<&str>, most: usize) -> (Vec<Entry>, bool) {
        let folder = format!("{folder}/");
        let all = self.keys.values();
        let all = all.filter(|entry| entry.key.starts_with(&folder));
        let mut all = all.filter(|entry| behind.is_none_or(|behind| entry.key.as_str() > behind));
        let found = all.by_ref().take(most).cloned().collect();
        (found, all.next().is_some())
    }
}
