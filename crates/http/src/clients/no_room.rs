//! Connections that wait for room in what all may hold, by how long their answers are to be: who
//! asks for little passes who asks for much.

use rhythm_net::ConnectionId;
use std::collections::VecDeque;

/// Answers in one queue differ in length by less than twice.
const QUEUES: usize = usize::BITS as usize + 1;

/// Connections that wait for room.
#[derive(Debug)]
pub(crate) struct NoRoom {
    /// Each with its number in the order in which all came, for answers of so many bits of length.
    queues: [VecDeque<(u64, ConnectionId)>; QUEUES],
    came: u64,
    waiting: usize,
}

impl NoRoom {
    pub(crate) fn new() -> NoRoom {
        NoRoom {
            queues: std::array::from_fn(|_| VecDeque::new()),
            came: 0,
            waiting: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// One waits for an answer of so many bytes.
    pub(crate) fn push(&mut self, id: ConnectionId, bytes: usize) {
        let queue = (usize::BITS - bytes.leading_zeros()) as usize;
        self.queues[queue].push_back((self.came, id));
        self.came += 1;
        self.waiting += 1;
    }

    /// The queue in which somebody has waited longest.
    pub(crate) fn oldest(&self) -> Option<usize> {
        let fronts = self.queues.iter().enumerate();
        let fronts = fronts.filter_map(|(queue, ids)| Some((ids.front()?.0, queue)));
        fronts.min().map(|(_, queue)| queue)
    }

    /// The first of each queue, those for short answers first.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = (usize, ConnectionId)> {
        let fronts = self.queues.iter().enumerate();
        fronts.filter_map(|(queue, ids)| Some((queue, ids.front()?.1)))
    }

    /// The first of a queue waits no more.
    pub(crate) fn take(&mut self, queue: usize) -> Option<ConnectionId> {
        let (_, id) = self.queues[queue].pop_front()?;
        self.waiting -= 1;
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_answers_pass_long_ones_and_who_has_waited_longest_is_known() {
        let id = |slot| ConnectionId::new(slot, 0);
        let mut waiting = NoRoom::new();
        assert_eq!(waiting.oldest(), None);
        for (slot, bytes) in [(0, 7_000_000), (1, 100_000), (2, 7_100_000), (3, 70_000)] {
            waiting.push(id(slot), bytes);
        }
        let firsts: Vec<ConnectionId> = waiting.firsts().map(|(_, id)| id).collect();
        assert_eq!(firsts, [id(1), id(0)]);
        for slot in 0..4 {
            let oldest = waiting.oldest().expect("one is left");
            assert!(!waiting.is_empty());
            assert_eq!(waiting.take(oldest), Some(id(slot)));
        }
        assert!(waiting.is_empty() && waiting.oldest().is_none());
    }
}
