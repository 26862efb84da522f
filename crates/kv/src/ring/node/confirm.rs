//! What was written: it goes to who has copies, and whoever waits for it is told when they have it.

use super::super::local::Local;
use super::super::written::Written;
use super::effects::{Effects, Ticket};
use super::progress::{Waiter, Waiting};
use super::{Node, bits};
use rhythm_net::Time;
use std::collections::{BTreeMap, BTreeSet};

impl Node {
    /// A worker wrote this in ranges that it may write. Under `acked` the ticket is released when
    /// the targets have it.
    pub fn written(&mut self, ticket: Ticket, written: &Written, local: &Local<'_, '_>) {
        let (batch, ranges) = self.replicate(written, local);
        if self.options.acked {
            self.await_copies(batch, ranges | written.shown(), Waiter::Worker(ticket));
        }
    }

    pub(super) fn await_copies(&mut self, batch: u64, ranges: u64, waiter: Waiter) {
        self.waiting.push_back(Waiting {
            batch,
            ranges,
            waiter,
        });
    }

    /// Sends the targets what was written, as a batch: its number, and the ranges that it is of.
    pub(super) fn replicate(&mut self, written: &Written, local: &Local<'_, '_>) -> (u64, u64) {
        let (mut reached, mut ranges) = (0_u64, 0_u64);
        if written.flushed() {
            reached |= self.flush_all(local);
        }
        let mut passed: BTreeMap<usize, BTreeSet<&[u8]>> = BTreeMap::new();
        for key in written.keys() {
            let range = self.view.placement().range(key);
            ranges |= 1 << range;
            if !self.serves(range) {
                // Another does since.
                self.disputed |= 1 << range;
                continue;
            }
            if self.is_straight_now(range) {
                reached |= self.targets[range];
            }
            if self.options.scheme.is_chain() {
                passed.entry(range).or_default().insert(key);
                continue;
            }
            let of = self.of(range);
            for node in bits(self.targets[range]) {
                (self.peers[node].link).write(|out| local.tell(of, key, out));
            }
        }
        self.batch += 1;
        for (range, keys) in passed {
            self.pass_on(range, &keys, self.batch, local);
        }
        for node in bits(reached) {
            self.peers[node].link.mark(self.batch);
        }
        (self.batch, ranges)
    }

    /// Whether a node has all of a batch that it is to have.
    pub(super) fn has(&self, node: usize, batch: u64) -> bool {
        (self.peers[node].link.confirmed()).is_none_or(|confirmed| confirmed >= batch)
    }

    pub(super) fn release(&mut self, now: Time, out: &mut Effects) {
        let disputed = std::mem::take(&mut self.disputed);
        if disputed != 0 {
            self.give_up(disputed, out);
        }
        if now >= self.may_write_until() || self.holds_back(now) {
            return;
        }
        self.forget_confirmed();
        let confirmed = self.confirmed();
        while self.waiting.front().is_some_and(|of| of.batch <= confirmed)
            && let Some(Waiting { waiter, .. }) = self.waiting.pop_front()
        {
            match waiter {
                Waiter::Worker(ticket) => out.released.push(ticket),
                Waiter::Answer(origin, answer) => {
                    self.answers_held -= answer.len();
                    self.answer(origin, answer, out);
                }
            }
        }
    }

    /// What waits of these ranges is not confirmed any more.
    fn give_up(&mut self, ranges: u64, out: &mut Effects) {
        for waiting in std::mem::take(&mut self.waiting) {
            match (waiting.ranges & ranges, waiting.waiter) {
                (0, waiter) => self.waiting.push_back(Waiting { waiter, ..waiting }),
                (_, Waiter::Worker(ticket)) => out.broken.push(ticket),
                (_, Waiter::Answer(origin, answer)) => {
                    self.answers_held -= answer.len();
                    self.lose_answer(origin, out);
                }
            }
        }
    }
}
