//! Commands that came from other nodes, until they are taken on.

use super::super::wire::Of;
use rhythm_net::Time;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// A command that came from another node.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) of: Of,
    /// It only reads, and who reads the range may execute it.
    pub(super) reads: bool,
    pub(super) from: usize,
    pub(super) losses: u64,
    pub(super) number: u64,
    pub(super) command: Vec<u8>,
    pub(super) at: Time,
}

/// Those that wait for room: what one node asks of one range in its order, and each of these in
/// turn, since there may be room for some of them and not for others.
#[derive(Debug, Default)]
pub(super) struct AllThatCame {
    /// By node and range; none is empty.
    queues: BTreeMap<(usize, u8), VecDeque<Came>>,
    /// The queue that had its turn last.
    last: (usize, u8),
}

impl AllThatCame {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(super) fn add(&mut self, came: Came) {
        let queue = self.queues.entry((came.from, came.of.range)).or_default();
        queue.push_back(came);
    }

    /// The next that may be taken on.
    pub(super) fn take(&mut self, may: impl Fn(&Came) -> bool) -> Option<Came> {
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let mut queues = self
            .queues
            .range(behind)
            .chain(self.queues.range(..=self.last));
        let (&next, _) = queues.find(|(_, queue)| queue.front().is_some_and(&may))?;
        self.last = next;
        let queue = self.queues.get_mut(&next)?;
        let came = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&next);
        }
        came
    }

    /// Those that are of a kind, in their order, as long as none of another is before them in their
    /// queue.
    pub(super) fn take_first(&mut self, is_of_it: impl Fn(&Came) -> bool) -> Vec<Came> {
        let mut taken = Vec::new();
        for queue in self.queues.values_mut() {
            let count = queue.iter().take_while(|came| is_of_it(came)).count();
            taken.extend(queue.drain(..count));
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of these nodes and ranges, and at these times, in nanoseconds.
    fn all(of: &[(usize, u8, u64)]) -> AllThatCame {
        let mut all = AllThatCame::default();
        for (number, &(from, range, at)) in of.iter().enumerate() {
            all.add(Came {
                of: Of { range, epoch: 1 },
                reads: false,
                from,
                losses: 0,
                number: number as u64,
                command: Vec::new(),
                at: Time::from_nanos(at),
            });
        }
        all
    }

    #[test]
    fn each_has_its_turn_and_keeps_its_order() {
        let of = [(1, 0), (1, 0), (1, 0), (1, 7), (2, 0), (2, 0)];
        let mut all = all(&of.map(|(from, range)| (from, range, 0)));
        let mut numbers = |count, may: &dyn Fn(&Came) -> bool| {
            let taken = (0..count).map_while(|_| all.take(may));
            taken.map(|came| came.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(4, &|_| true), [0, 3, 4, 1]);
        assert_eq!(numbers(4, &|came| came.from != 1), [5]);
        assert_eq!(numbers(4, &|_| true), [2]);
        assert!(all.is_empty());
    }

    /// What is before one that stays may be executed before it, and not behind.
    #[test]
    fn the_first_of_each_go_first() {
        let of = [(1, 0, 5), (2, 0, 9), (1, 0, 6), (1, 0, 9), (1, 7, 5)];
        let mut all = all(&of);
        let mut numbers = |until| {
            let taken = all.take_first(|came| came.at < Time::from_nanos(until));
            taken.iter().map(|came| came.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(9), [0, 2, 4]);
        assert!(numbers(9).is_empty());
        assert_eq!(numbers(10), [3, 1]);
        assert!(all.is_empty());
    }
}
