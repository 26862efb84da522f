//! Queries that ask the same as another of their cohort, which alone is sent: its answer is
//! theirs, too.

use rhythm_net::{Key, Slab};
use std::collections::HashMap;

/// Who waits for another's answer, by that one's key, until it is told.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    /// The last that came to each.
    last: HashMap<u64, Key>,
    all: Slab<Follower>,
}

#[derive(Debug)]
struct Follower {
    query: Key,
    /// Who came before it to the same.
    before: Option<Key>,
}

impl Followers {
    /// A query waits for the answer to the one of this key.
    pub(crate) fn push(&mut self, of: u64, query: Key) {
        let before = self.last.get(&of).copied();
        let follower = self.all.insert(Follower { query, before });
        self.last.insert(of, follower);
    }

    /// The query of this key is told of: who has waited for it, the last first. The caller
    /// looks at all of them.
    pub(crate) fn take(&mut self, of: u64) -> impl Iterator<Item = Key> {
        let mut next = match self.last.is_empty() {
            true => None,
            false => self.last.remove(&of),
        };
        std::iter::from_fn(move || {
            let Follower { query, before } = self.all.remove(next?)?;
            next = before;
            Some(query)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_given_once_to_the_one_it_waits_for() {
        let mut followers = Followers::default();
        let mut of = Slab::new();
        let queries: Vec<Key> = (0..6).map(|query| of.insert(query)).collect();
        for (at, query) in queries.iter().enumerate() {
            followers.push(at as u64 % 2, *query);
        }
        let none: Vec<Key> = followers.take(7).collect();
        assert_eq!(none, []);
        let of_one: Vec<Key> = followers.take(1).collect();
        assert_eq!(of_one, [queries[5], queries[3], queries[1]]);
        assert_eq!(followers.take(1).next(), None);
        assert_eq!(followers.take(0).count(), 3);
        assert!(followers.last.is_empty());
        assert_eq!(followers.all.len(), 0);
    }
}
