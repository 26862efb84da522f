//! Who watches which keys, found by a key: what it costs to tell of a change is for those whom it
//! is told to, however many others watch something.

use rhythm_net::ConnectionId;
use std::collections::BTreeMap;
use std::iter;
use std::ops::Bound;

/// By prefixes: who watches, and the revision behind which changes are told.
#[derive(Debug, Default)]
pub(super) struct Watches(BTreeMap<Vec<u8>, BTreeMap<ConnectionId, u64>>);

impl Watches {
    /// Somebody watches a prefix from a revision on. False: he does already, and is told all.
    pub(super) fn begin(&mut self, prefix: &[u8], id: ConnectionId, revision: u64) -> bool {
        let whose = self.0.entry(prefix.to_vec()).or_default();
        let is_new = !whose.contains_key(&id);
        whose.entry(id).or_insert(revision);
        is_new
    }

    /// Whether nobody watches anything.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// He does no longer.
    pub(super) fn end(&mut self, prefix: &[u8], id: ConnectionId) {
        if let Some(whose) = self.0.get_mut(prefix) {
            whose.remove(&id);
            if whose.is_empty() {
                self.0.remove(prefix);
            }
        }
    }

    /// All that watch a key, and from which revision on, once for each prefix.
    pub(super) fn of(&self, key: &[u8]) -> impl Iterator<Item = (ConnectionId, u64)> {
        let mut longest = Some(key.len());
        let next = move || {
            loop {
                let until = Bound::Included(&key[..longest?]);
                let mut before = self.0.range::<[u8], _>((Bound::Unbounded, until));
                let (prefix, whose) = before.next_back()?;
                let alike = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
                if alike == prefix.len() {
                    longest = alike.checked_sub(1);
                    return Some(whose);
                }
                // Longer ones that the key begins with would lie between the two.
                longest = Some(alike);
            }
        };
        let all = iter::from_fn(next).flatten();
        all.map(|(id, revision)| (*id, *revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_watched_by_all_that_it_begins_with_and_no_others() {
        let mut watches = Watches::default();
        let id = |slot| ConnectionId::new(slot, 0);
        let prefixes = [
            "", "a", "a/b", "a/bc", "a/b/", "a/c", "b", "a/b/c/d", "a/b/a",
        ];
        for (slot, prefix) in prefixes.iter().enumerate() {
            assert!(watches.begin(prefix.as_bytes(), id(slot as u32), 7));
            assert!(watches.begin(prefix.as_bytes(), id(99), 8));
            assert!(!watches.begin(prefix.as_bytes(), id(99), 9));
        }
        for key in [
            "", "a", "a/b", "a/b/c", "a/bb", "a/bc/d", "a/", "a/d", "b/x", "c", "0",
        ] {
            let mut found: Vec<_> = watches.of(key.as_bytes()).collect();
            found.sort();
            let mut wanted = Vec::new();
            for (slot, prefix) in prefixes.iter().enumerate() {
                if key.starts_with(prefix) {
                    wanted.extend([(id(slot as u32), 7), (id(99), 8)]);
                }
            }
            wanted.sort();
            assert_eq!(found, wanted, "{key}");
        }
        for (slot, prefix) in prefixes.iter().enumerate() {
            watches.end(prefix.as_bytes(), id(slot as u32));
            watches.end(prefix.as_bytes(), id(99));
        }
        assert!(watches.is_empty());
    }
}
