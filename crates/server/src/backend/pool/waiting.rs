//! Requests that wait for a place in a pipe, in two queues: those that share a pipe with others,
//! and those that go alone (see the pool's text). Neither queue holds up the other.

use super::super::awaited::Taken;
use std::collections::VecDeque;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Those that share, and those that go alone; each queue in order of age.
    queues: [VecDeque<Taken>; 2],
}

impl Waiting {
    fn queue(&mut self, request: &Taken) -> &mut VecDeque<Taken> {
        &mut self.queues[usize::from(request.is_alone)]
    }

    /// A request that has just come.
    pub(super) fn push_back(&mut self, request: Taken) {
        self.queue(&request).push_back(request);
    }

    /// One that has waited before: it goes before all others of its queue.
    pub(super) fn push_front(&mut self, request: Taken) {
        self.queue(&request).push_front(request);
    }

    /// The oldest that shares.
    pub(super) fn pop_shared(&mut self) -> Option<Taken> {
        self.queues[0].pop_front()
    }

    /// The oldest of all, for a pipe without others.
    pub(super) fn pop_oldest(&mut self) -> Option<Taken> {
        let [shared, alone] = &mut self.queues;
        let is_alone = match (shared.front(), alone.front()) {
            (Some(shared), Some(alone)) => alone.since <= shared.since,
            (shared, _) => shared.is_none(),
        };
        self.queues[usize::from(is_alone)].pop_front()
    }

    /// How many share, and how many go alone.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.queues[0].len(), self.queues[1].len()]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts() == [0, 0]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Taken> {
        self.queues.iter().flatten()
    }

    /// Takes out those that this says of.
    pub(super) fn extract(
        &mut self,
        mut which: impl FnMut(&Taken) -> bool,
        mut take: impl FnMut(Taken),
    ) {
        for queue in &mut self.queues {
            for _ in 0..queue.len() {
                match queue.pop_front() {
                    Some(request) if which(&request) => take(request),
                    Some(request) => queue.push_back(request),
                    None => break,
                }
            }
        }
    }
}
