//! Which queries are one to their backend: those that ask the same as another of their cohort,
//! which alone is sent and whose answer is theirs, too; and those that one statement asks for at
//! once.

use rhythm_net::{Key, Slab};
use std::collections::HashMap;

/// What queries under way stand for beside themselves, by their keys, until they are told of.
#[derive(Debug, Default)]
pub(crate) struct Together {
    /// Who has asked the same: the last of them.
    last: HashMap<u64, Key>,
    followers: Slab<Follower>,
    /// What one statement asks for, in its order: the first by whose key it is known.
    merged: HashMap<u64, Vec<Key>>,
}

#[derive(Debug)]
struct Follower {
    query: Key,
    /// Who came before it to the same.
    before: Option<Key>,
}

impl Together {
    /// A query waits for the answer to the one of this key.
    pub(crate) fn follow(&mut self, of: u64, query: Key) {
        let before = self.last.get(&of).copied();
        let follower = self.followers.insert(Follower { query, before });
        self.last.insert(of, follower);
    }

    /// These queries, several, are asked as one, of the first's key.
    pub(crate) fn merge(&mut self, queries: Vec<Key>) {
        self.merged.insert(queries[0].as_u64(), queries);
    }

    /// What was asked as one by this key, where several were.
    pub(crate) fn take_merged(&mut self, of: u64) -> Option<Vec<Key>> {
        match self.merged.is_empty() {
            true => None,
            false => self.merged.remove(&of),
        }
    }

    /// The query of this key is told of: who has waited for it, the last first. The caller looks at
    /// all of them.
    pub(crate) fn take_followers(&mut self, of: u64) -> impl Iterator<Item = Key> {
        let mut next = match self.last.is_empty() {
            true => None,
            false => self.last.remove(&of),
        };
        std::iter::from_fn(move || {
            let follower = self.followers.remove(next?);
            let Follower { query, before } = follower.expect("those of a chain are kept");
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
        let mut together = Together::default();
        let mut of = Slab::new();
        let queries: Vec<Key> = (0..6).map(|query| of.insert(query)).collect();
        for (at, query) in queries.iter().enumerate() {
            together.follow(at as u64 % 2, *query);
        }
        let none: Vec<Key> = together.take_followers(7).collect();
        assert_eq!(none, []);
        let of_one: Vec<Key> = together.take_followers(1).collect();
        assert_eq!(of_one, [queries[5], queries[3], queries[1]]);
        assert_eq!(together.take_followers(1).next(), None);
        assert_eq!(together.take_followers(0).count(), 3);
        assert!(together.last.is_empty());
        assert_eq!(together.followers.len(), 0);
        together.merge(queries[2..].to_vec());
        assert_eq!(together.take_merged(queries[3].as_u64()), None);
        let merged = together.take_merged(queries[2].as_u64());
        assert_eq!(merged.as_deref(), Some(&queries[2..]));
        assert_eq!(together.take_merged(queries[2].as_u64()), None);
    }
}
