//! Connections that wait for room in what all may hold, by how long their answers are to be.
//!
//! Where there is some, who asks for little passes who asks for much. Where there is none, each
//! length has its share of what is let through all the same, byte for byte: beside one answer of
//! 7 MB go 50 of 140 KB. What is known of no answer but the page's others has a share of its own,
//! so that who asks for something new waits for nobody of whom more is known.

use rhythm_net::ConnectionId;
use std::collections::VecDeque;

/// Answers in one queue differ in length by less than twice; in the last, their length is a guess.
const QUEUES: usize = GUESSED + 1;
const GUESSED: usize = usize::BITS as usize + 1;

/// How long an answer is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// In bytes.
    pub bytes: usize,
    /// It is that of others: of this one nothing is known.
    pub is_guess: bool,
}

impl Expected {
    /// So many bytes.
    pub const fn bytes(bytes: usize) -> Expected {
        Expected {
            bytes,
            is_guess: false,
        }
    }
}

/// Connections that wait for room.
#[derive(Debug)]
pub(crate) struct NoRoom {
    /// Each with the bytes that it asks for.
    queues: [VecDeque<(usize, ConnectionId)>; QUEUES],
    /// What each queue was let through: bytes, counted as if it had always asked for some.
    passed: [u64; QUEUES],
    /// The least of those that asked for some, when one was let through.
    turn: u64,
    waiting: usize,
}

impl NoRoom {
    pub(crate) fn new() -> NoRoom {
        NoRoom {
            queues: std::array::from_fn(|_| VecDeque::new()),
            passed: [0; QUEUES],
            turn: 0,
            waiting: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// One waits for such an answer.
    pub(crate) fn push(&mut self, id: ConnectionId, expected: Expected) {
        let queue = match expected.is_guess {
            true => GUESSED,
            false => (usize::BITS - expected.bytes.leading_zeros()) as usize,
        };
        if self.queues[queue].is_empty() {
            // While it asked for nothing it saved nothing.
            self.passed[queue] = self.passed[queue].max(self.turn);
        }
        self.queues[queue].push_back((expected.bytes, id));
        self.waiting += 1;
    }

    /// The queue that was let through least, the shortest answers of these.
    pub(crate) fn fairest(&self) -> Option<usize> {
        let waiting = (0..QUEUES).filter(|queue| !self.queues[*queue].is_empty());
        waiting.min_by_key(|queue| self.passed[*queue])
    }

    /// The first of each queue, those for short answers first.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = (usize, ConnectionId)> {
        let fronts = self.queues.iter().enumerate();
        fronts.filter_map(|(queue, ids)| Some((queue, ids.front()?.1)))
    }

    /// The first of a queue is let through: it waits no more.
    pub(crate) fn take(&mut self, queue: usize) -> Option<ConnectionId> {
        self.turn = self.passed[self.fairest()?];
        let (bytes, id) = self.queues[queue].pop_front()?;
        self.waiting -= 1;
        self.passed[queue] = self.passed[queue].saturating_add(bytes as u64);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(slot, 0)
    }

    /// Lets so many through, as if there were no room.
    fn pass(waiting: &mut NoRoom, count: usize) -> Vec<ConnectionId> {
        let next = |_| waiting.fairest().and_then(|queue| waiting.take(queue));
        (0..count).map_while(next).collect()
    }

    #[test]
    fn short_answers_pass_long_ones_where_there_is_room_and_all_are_let_through() {
        let mut waiting = NoRoom::new();
        assert_eq!(waiting.fairest(), None);
        for (slot, bytes) in [(0, 7_000_000), (1, 100_000), (2, 7_100_000), (3, 70_000)] {
            waiting.push(id(slot), Expected::bytes(bytes));
        }
        let firsts: Vec<ConnectionId> = waiting.firsts().map(|(_, id)| id).collect();
        assert_eq!(firsts, [id(1), id(0)]);
        assert_eq!(pass(&mut waiting, 9), [1, 0, 3, 2].map(id));
        assert!(waiting.is_empty());
    }

    #[test]
    fn each_length_gets_as_many_bytes_and_what_is_guessed_as_many_again() {
        let mut waiting = NoRoom::new();
        for slot in 0..300 {
            waiting.push(id(slot), Expected::bytes(8 << 20));
            waiting.push(id(1000 + slot), Expected::bytes(1 << 20));
            let expected = Expected {
                is_guess: true,
                ..Expected::bytes(8 << 20)
            };
            waiting.push(id(2000 + slot), expected);
        }
        let passed = pass(&mut waiting, 100);
        let of = |from: u32| {
            let between = |one: &&ConnectionId| (from..from + 300).contains(&one.slot());
            passed.iter().filter(between).count()
        };
        assert_eq!([of(0), of(1000), of(2000)], [10, 80, 10]);
        // Who comes later has saved nothing, and is behind nobody.
        waiting.push(id(4000), Expected::bytes(100_000));
        waiting.push(id(4001), Expected::bytes(100_000));
        let passed = pass(&mut waiting, 12);
        assert!(passed.contains(&id(4000)) && passed.contains(&id(4001)));
        assert!(passed.iter().any(|one| one.slot() < 4000));
    }
}
