//! A node's own store, as replication sees it: items become messages, and messages items.
//!
//! What travels is what a key has, and not what was done to it. A node reads it when it sends it,
//! so what a neighbor gets of a key is never older than what it got before, whichever worker wrote
//! first.

use super::NODES_MAX;
use super::wire::{self, Copy, Message, Of};
use crate::store::{CasIds, Change, Item, Marks, New, Pinned, Value};

/// The CAS ids of a node that began in this nanosecond since 1970. What a client was told by one
/// node may come to another, which took its place, so nobody else gives them away: no other node,
/// nor this one in another life. They grow more slowly than the time does, as long as there are
/// fewer than 15 million writes a second.
pub(crate) fn cas_ids(node: usize, began: u64) -> CasIds {
    let step = NODES_MAX as u64;
    CasIds {
        from: began - began % step + node as u64 % step,
        step,
    }
}

/// The store under a guard, at a second.
pub struct Local<'a, 'w> {
    pinned: &'a mut Pinned<'w>,
    now: u32,
}

impl<'a, 'w> Local<'a, 'w> {
    /// What is there at this second of the store's clock.
    pub fn new(pinned: &'a mut Pinned<'w>, now: u32) -> Local<'a, 'w> {
        Local { pinned, now }
    }

    /// The second.
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// Appends what the key has now.
    pub(super) fn tell(&self, of: Of, key: &[u8], out: &mut Vec<u8>) {
        let hash = self.pinned.store().hash(key);
        match self.pinned.get(hash, key, self.now) {
            Some(item) => Message::Put(of, self.copy(&item)).write(out),
            None => Message::Drop(of, key).write(out),
        }
    }

    fn copy<'i>(&self, item: &Item<'i>) -> Copy<'i> {
        let marks = item.marks();
        let marked = [
            (marks.stale, wire::STALE),
            (marks.won, wire::WON),
            (marks.fetched, wire::FETCHED),
            (marks.encoded, wire::ENCODED),
        ];
        let set = marked.into_iter().filter(|(is_set, _)| *is_set);
        Copy {
            key: item.key(),
            flags: item.flags(),
            left: match item.expires() {
                0 => 0,
                expires => expires.saturating_sub(self.now).max(1),
            },
            marks: set.fold(0, |marks, (_, mark)| marks | mark),
            value: item.value(),
        }
    }

    /// The key gets this item. It gets a CAS id of this store's own. Where there is no room for it,
    /// it has none: better nothing than what it had before.
    pub(super) fn put(&mut self, copy: Copy<'_>) {
        let has = |mark| copy.marks & mark != 0;
        let new = New {
            value: Value::Bytes(copy.value),
            flags: copy.flags,
            expires: match copy.left {
                0 => 0,
                left => self.now.saturating_add(left),
            },
            cas: None,
            marks: Marks {
                stale: has(wire::STALE),
                won: has(wire::WON),
                fetched: has(wire::FETCHED),
                encoded: has(wire::ENCODED),
            },
        };
        let hash = self.pinned.store().hash(copy.key);
        let put = (self.pinned).update(hash, copy.key, self.now, |_| (Change::Store(new), ()));
        if put.is_err() {
            self.remove(copy.key, |_| true);
        }
    }

    /// The key's item goes, if it is one of these.
    pub(super) fn remove(&mut self, key: &[u8], is: impl Fn(&Item<'_>) -> bool) {
        let hash = self.pinned.store().hash(key);
        let removed = (self.pinned).update(hash, key, self.now, |item| match item {
            Some(item) if is(item) => (Change::Remove, ()),
            _ => (Change::Keep, ()),
        });
        debug_assert!(removed.is_ok(), "to drop an item takes no room");
    }

    /// All items go.
    pub(super) fn flush(&mut self) {
        self.pinned.store().flush_all(self.now, self.now);
    }

    /// The keys in a bucket of the table, as the next step of a walk. False: it is over.
    pub(super) fn walk(&self, bucket: usize, mut each: impl FnMut(&[u8])) -> bool {
        self.pinned.walk(bucket, |item| each(item.key()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Store, StoreOptions};
    use std::collections::BTreeSet;

    /// A client may have asked one of them for an item, and then comes to the next.
    #[test]
    fn no_two_nodes_and_no_two_lives_give_away_one_cas_id() {
        const WRITES: usize = 100;
        let mut all = BTreeSet::new();
        let lives = (0..3).flat_map(|node| [0, 10_000].map(|later| (node, later)));
        for (node, later) in lives {
            let options = StoreOptions {
                memory: 1 << 20,
                cas_ids: cas_ids(node, 1_800_000_000_000_000_017 + later),
                ..StoreOptions::default()
            };
            let store = Store::new(options).expect("memory");
            all.extend((0..WRITES).map(|_| store.next_cas()));
        }
        assert_eq!(all.len(), 6 * WRITES);
        assert!(
            all.iter().all(|cas| i64::try_from(*cas).is_ok()),
            "for clients' numbers"
        );
    }
}
