//! Clients flush all items. What is there of a key meanwhile may be anything that was ever written,
//! or nothing. What is written when that is answered stays, and in the end all copies are the same.

use super::World;
use crate::history::History;

/// How long one of which nobody knows what became of it may still come about, in microseconds.
const FLOATS: u64 = 2_000_000;

/// The flush that is under way: at which node it was said, and in which life of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flushing {
    node: usize,
    life: u64,
}

impl World {
    /// Somebody may flush all items.
    pub(super) fn flush(&mut self) {
        self.see_flush();
        let Some(random) = self.of_flushes.as_mut() else {
            return;
        };
        let node = random.below(self.nodes.len() as u64) as usize;
        let is_due = random.percent(40) && self.flushing.is_none();
        let is_going = self.stopped[node] <= self.now;
        let live = self.nodes[node].as_mut().filter(|live| !live.is_leaving);
        let Some(live) = live.filter(|_| is_due && is_going) else {
            return;
        };
        live.flush_in(0);
        let life = self.lives[node];
        self.flushing = Some(Flushing { node, life });
        self.counts.flushes += 1;
        self.say(|| format!("all is flushed at {node}"));
        self.take_later(node, 1);
        self.lose_all();
    }

    /// Who said it is answered.
    pub(super) fn flushed(&mut self, is_done: bool) {
        self.say(|| format!("the flush is answered, done: {is_done}"));
        self.flushing = None;
        self.flushed_until = match is_done {
            true => self.now,
            false => self.now + FLOATS,
        };
        self.lose_all();
    }

    /// Whether one is under way at a node that is there.
    pub(super) fn is_flushing(&self) -> bool {
        let is_there = |of: Flushing| self.lives[of.node] == of.life && self.has(of.node);
        self.flushing.is_some_and(is_there)
    }

    fn has(&self, node: usize) -> bool {
        self.nodes[node].is_some()
    }

    /// Whether one may come about now.
    pub(super) fn may_be_flushed(&mut self) -> bool {
        self.see_flush();
        self.flushing.is_some() || self.now < self.flushed_until
    }

    /// Where it was said a node may be gone.
    fn see_flush(&mut self) {
        if self.flushing.is_some() && !self.is_flushing() {
            self.flushed(false);
        }
    }

    /// Anything may be there.
    pub(super) fn lose_all(&mut self) {
        self.keys.iter_mut().for_each(History::lose);
        self.lost_at = self.now;
    }
}
