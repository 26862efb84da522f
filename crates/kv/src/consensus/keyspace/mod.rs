//! What the nodes agree on: items under keys, and the leases with which some of them end.
//!
//! Every node executes the same batches in the same order, so nothing here may depend on anything
//! else: no clock, no settings, no random numbers. That a lease's time is over is said by a
//! command of the log, too.

mod command;

pub(super) use command::Batch;
pub use command::{Command, Outcome};

use crate::bytes::{Put, Reader};
use crate::wire::{Mode, number};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Items at most.
pub const KEYS_MAX: usize = 65_536;
/// Bytes of keys and values at most.
pub const BYTES_MAX: usize = 16 << 20;
/// Bytes of a value at most.
pub const VALUE_MAX: usize = 256 << 10;
/// Leases at most.
pub const LEASES_MAX: usize = 4096;
/// The form of snapshots.
const VERSION: u8 = 1;

/// What is under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The client's flags.
    pub flags: u32,
    /// The value, shared by the answers that show it.
    pub value: Arc<[u8]>,
    /// The revision of the keyspace that it came with: its CAS id.
    pub revision: u64,
    /// The lease with which it ends.
    pub lease: Option<u64>,
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    /// How long it lives without a sign of life, in milliseconds.
    pub(super) ttl: u64,
    /// Signs of life so far.
    pub(super) renewals: u64,
}

/// Something became of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub key: Vec<u8>,
    /// The revision of the keyspace with it.
    pub revision: u64,
    /// The item is gone; else it is new, or another.
    pub is_deleted: bool,
}

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyspace {
    items: BTreeMap<Vec<u8>, Item>,
    /// Of keys and values.
    bytes: usize,
    /// Grows with each change, and each lease.
    revision: u64,
    leases: BTreeMap<u64, Lease>,
    /// The keys of each lease that has some: its end is not to look through all of them.
    of_lease: BTreeMap<u64, BTreeSet<Vec<u8>>>,
    /// The last batch of each node.
    batches: BTreeMap<u64, (u64, u64)>,
}

impl Keyspace {
    /// What is under a key.
    pub fn get(&self, key: &[u8]) -> Option<&Item> {
        self.items.get(key)
    }

    /// Items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A number that grows with every change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The leases by their numbers.
    pub(super) fn leases(&self) -> &BTreeMap<u64, Lease> {
        &self.leases
    }

    /// Whether a node's batch was executed, or the node has gone on without it.
    pub(super) fn has_executed(&self, origin: u64, number: (u64, u64)) -> bool {
        number <= self.last_batch(origin)
    }

    /// A node's last batch: its life, and its number.
    pub(super) fn last_batch(&self, origin: u64) -> (u64, u64) {
        self.batches.get(&origin).copied().unwrap_or_default()
    }

    /// Executes a batch, and says what comes of each command; nothing, if it was executed before or
    /// its node has gone on without it.
    pub(super) fn execute(
        &mut self,
        batch: Batch,
        changes: &mut Vec<Change>,
    ) -> Option<Vec<Outcome>> {
        let last = self.batches.entry(batch.origin).or_default();
        if batch.number <= *last {
            return None;
        }
        *last = batch.number;
        let commands = batch.commands.into_iter();
        Some(commands.map(|command| self.one(command, changes)).collect())
    }

    fn one(&mut self, command: Command, changes: &mut Vec<Change>) -> Outcome {
        match command {
            Command::Store {
                mode,
                key,
                flags,
                value,
                cas,
                lease,
            } => {
                let old = self.items.get(&key);
                let (flags, value, lease) = match (mode, old) {
                    (Mode::Add, Some(_)) => return Outcome::NotStored,
                    (Mode::Replace | Mode::Append | Mode::Prepend, None) => {
                        return Outcome::NotStored;
                    }
                    (Mode::Cas, None) => return Outcome::NotFound,
                    (Mode::Cas, Some(old)) if old.revision != cas => return Outcome::Exists,
                    (Mode::Append | Mode::Prepend, Some(old))
                        if cas != 0 && old.revision != cas =>
                    {
                        return Outcome::Exists;
                    }
                    (Mode::Append, Some(old)) => {
                        (old.flags, [&old.value[..], &value].concat(), old.lease)
                    }
                    (Mode::Prepend, Some(old)) => {
                        (old.flags, [&value[..], &old.value].concat(), old.lease)
                    }
                    (Mode::Set | Mode::Add | Mode::Replace | Mode::Cas, _) => (flags, value, lease),
                };
                if lease.is_some_and(|lease| !self.leases.contains_key(&lease)) {
                    return Outcome::LeaseOver;
                }
                self.put(key, flags, value, lease, changes)
            }
            Command::Delete { key, cas } => match self.items.get(&key) {
                None => Outcome::NotFound,
                Some(old) if cas.is_some_and(|cas| cas != old.revision) => Outcome::Exists,
                Some(_) => {
                    self.remove(key, changes);
                    Outcome::Deleted
                }
            },
            Command::Arithmetic { key, up, delta } => {
                let Some(old) = self.items.get(&key) else {
                    return Outcome::NotFound;
                };
                let (flags, lease) = (old.flags, old.lease);
                let Some(number) = number::unsigned64(&old.value) else {
                    return Outcome::NotANumber;
                };
                let number = match up {
                    true => number.wrapping_add(delta),
                    false => number.saturating_sub(delta),
                };
                let value = number.to_string().into_bytes();
                match self.put(key, flags, value, lease, changes) {
                    Outcome::Stored(revision) => Outcome::Number(number, revision),
                    refused => refused,
                }
            }
            Command::Open { ttl } => {
                if self.leases.len() >= LEASES_MAX {
                    return Outcome::Full;
                }
                self.revision += 1;
                let lease = Lease { ttl, renewals: 0 };
                self.leases.insert(self.revision, lease);
                Outcome::Alive(self.revision)
            }
            Command::Renew { lease } => match self.leases.get_mut(&lease) {
                None => Outcome::NotFound,
                Some(found) => {
                    found.renewals += 1;
                    Outcome::Alive(lease)
                }
            },
            Command::End { lease, renewals } => {
                let Some(found) = self.leases.get(&lease) else {
                    return Outcome::NotFound;
                };
                if renewals.is_some_and(|renewals| renewals != found.renewals) {
                    return Outcome::Exists;
                }
                self.leases.remove(&lease);
                for key in self.of_lease.remove(&lease).unwrap_or_default() {
                    self.remove(key, changes);
                }
                Outcome::Ended
            }
        }
    }

    fn put(
        &mut self,
        key: Vec<u8>,
        flags: u32,
        value: Vec<u8>,
        lease: Option<u64>,
        changes: &mut Vec<Change>,
    ) -> Outcome {
        if value.len() > VALUE_MAX {
            return Outcome::TooLong;
        }
        let old = self.items.get(&key).map(|old| key.len() + old.value.len());
        let bytes = self.bytes - old.unwrap_or(0) + key.len() + value.len();
        let is_more = old.is_none() && self.items.len() >= KEYS_MAX;
        // What gets shorter, or stays, always may.
        if is_more || bytes > BYTES_MAX && bytes > self.bytes {
            return Outcome::Full;
        }
        self.bytes = bytes;
        self.revision += 1;
        let item = Item {
            flags,
            value: value.into(),
            revision: self.revision,
            lease,
        };
        if let Some(lease) = lease {
            self.of_lease.entry(lease).or_default().insert(key.clone());
        }
        let old = self.items.insert(key.clone(), item);
        let old = old.and_then(|old| old.lease);
        self.leave(old.filter(|old| Some(*old) != lease), &key);
        changes.push(Change {
            key,
            revision: self.revision,
            is_deleted: false,
        });
        Outcome::Stored(self.revision)
    }

    fn remove(&mut self, key: Vec<u8>, changes: &mut Vec<Change>) {
        if let Some(old) = self.items.remove(&key) {
            self.leave(old.lease, &key);
            self.bytes -= key.len() + old.value.len();
            self.revision += 1;
            changes.push(Change {
                key,
                revision: self.revision,
                is_deleted: true,
            });
        }
    }

    /// A key ends with this lease no longer.
    fn leave(&mut self, lease: Option<u64>, key: &[u8]) {
        if let Some(lease) = lease
            && let Some(keys) = self.of_lease.get_mut(&lease)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.of_lease.remove(&lease);
            }
        }
    }

    /// All of it in bytes, for nodes that are far behind and for the journal.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_u64(self.revision);
        out.put_u32(self.leases.len() as u32);
        for (number, lease) in &self.leases {
            out.put_u64(*number);
            out.put_u64(lease.ttl);
            out.put_u64(lease.renewals);
        }
        out.put_u32(self.batches.len() as u32);
        for (origin, (life, number)) in &self.batches {
            out.put_u64(*origin);
            out.put_u64(*life);
            out.put_u64(*number);
        }
        out.put_u32(self.items.len() as u32);
        for (key, item) in &self.items {
            out.put_bytes(key);
            out.put_u32(item.flags);
            out.put_bytes(&item.value);
            out.put_u64(item.revision);
            out.put_u64(item.lease.unwrap_or(0));
        }
        out
    }

    /// The inverse; `None`: it is no snapshot, or one of another version.
    pub(super) fn from_snapshot(bytes: &[u8]) -> Option<Keyspace> {
        let mut reader = Reader(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let mut keyspace = Keyspace {
            revision: reader.u64()?,
            ..Keyspace::default()
        };
        for _ in 0..reader.u32()? {
            let number = reader.u64()?;
            let (ttl, renewals) = (reader.u64()?, reader.u64()?);
            keyspace.leases.insert(number, Lease { ttl, renewals });
        }
        for _ in 0..reader.u32()? {
            let (origin, number) = (reader.u64()?, (reader.u64()?, reader.u64()?));
            keyspace.batches.insert(origin, number);
        }
        for _ in 0..reader.u32()? {
            let key = reader.bytes()?.to_vec();
            let item = Item {
                flags: reader.u32()?,
                value: reader.bytes()?.into(),
                revision: reader.u64()?,
                lease: Some(reader.u64()?).filter(|lease| *lease > 0),
            };
            if let Some(lease) = item.lease {
                let keys = keyspace.of_lease.entry(lease).or_default();
                keys.insert(key.clone());
            }
            keyspace.bytes += key.len() + item.value.len();
            keyspace.items.insert(key, item);
        }
        reader.0.is_empty().then_some(keyspace)
    }
}

#[cfg(test)]
mod tests;
