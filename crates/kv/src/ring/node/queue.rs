//! What waits until it is confirmed, in the order in which it is let go.

use super::super::ticket::Ticket;
use super::progress::{Waiter, Waiting};
use std::collections::VecDeque;

/// What waits, in the order in which it is let go.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// So many of the first are behind nothing any more.
    looked: usize,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn front(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    pub(super) fn back_mut(&mut self) -> Option<&mut Waiting> {
        self.waiting.back_mut()
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Workers have handed so much over, in batches up to this one. Each that waits is looked at
    /// when all before it are behind nothing, as it goes after them.
    pub(super) fn took(&mut self, taken: &[u64], batch: u64) {
        let is_open = |of: &Ticket| taken.get(of.worker).is_none_or(|taken| *taken < of.number);
        while let Some(waiting) = self.waiting.get_mut(self.looked) {
            if waiting.behind.iter().any(is_open) {
                return;
            }
            if !std::mem::take(&mut waiting.behind).is_empty() {
                // What was written is of this batch, or of one before it.
                waiting.batch = batch;
            }
            self.looked += 1;
        }
    }

    /// The first, where it is behind nothing, and this batch is confirmed.
    pub(super) fn next(&mut self, confirmed: u64) -> Option<Waiter> {
        let may_go = |of: &&Waiting| of.batch <= confirmed && of.behind.is_empty();
        self.waiting.front().filter(may_go)?;
        self.looked = self.looked.saturating_sub(1);
        self.waiting.pop_front().map(|of| of.waiter)
    }
}

impl IntoIterator for Queue {
    type Item = Waiting;
    type IntoIter = std::collections::vec_deque::IntoIter<Waiting>;

    fn into_iter(self) -> Self::IntoIter {
        self.waiting.into_iter()
    }
}
