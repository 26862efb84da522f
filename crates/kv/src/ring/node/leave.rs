//! A node that leaves: it says so, and stands behind all others from then on, so that what it
//! serves is handed over as to a node that came back (`ranges.rs`). It stays until others serve all
//! of it and have their copies.

use super::super::wire::{Of, Stay};
use super::reached::{Leg, Reached};
use super::{Node, Sync, bits};
use rhythm_net::Time;
use std::time::Duration;

/// For how long one that was there, and did not say that it leaves, may be back: it was silent for
/// a moment, or begins anew.
const BACK_WITHIN: Duration = Duration::from_secs(5);

impl Node {
    /// From now on this node leaves. [`has_left`](Self::has_left) says when clients may go, and
    /// [`go`](Self::go) ends it.
    pub fn leave(&mut self, now: Time) {
        self.leaving |= 1 << self.me;
        self.left_at = now;
        self.reached = Reached::default();
        self.beat(now);
    }

    /// It ends with the frames that follow, which say so.
    pub fn go(&mut self, now: Time) {
        self.is_gone = true;
        self.beat(now);
    }

    fn beat(&mut self, now: Time) {
        for node in self.others() {
            self.peers[node].beat_at = now;
        }
    }

    pub(super) fn stay(&self) -> Stay {
        match self.leaving & 1 << self.me != 0 {
            _ if self.is_gone => Stay::Gone,
            true => Stay::Leaves,
            false => Stay::Stays,
        }
    }

    /// Whether nobody would miss it: what it served others serve, and have copies of. So it is,
    /// too, where nobody is there who stays, nor was lately.
    pub fn has_left(&self, now: Time) -> bool {
        self.stay() != Stay::Stays && (self.complete == 0 || self.is_alone(now))
    }

    /// Whether there is nobody to give anything to. One who stays, and is not heard, is waited for:
    /// it may have little yet of what only this node has. With leases one whose own is over is not.
    fn is_alone(&self, now: Time) -> bool {
        let may_be_back = |node: usize| {
            let peer = &self.peers[node];
            let since = peer.heard.max(self.looks_since);
            let stays = self.leaving & 1 << node == 0 && !peer.has_ended;
            stays && peer.last_session != 0 && now.since(since) < BACK_WITHIN
        };
        self.stayers() == 0
            && now.since(self.left_at) >= self.options.dead_after
            && !self.others().any(may_be_back)
    }

    /// Whether it serves nothing any more, though others may not have all copies yet.
    pub(crate) fn has_handed_over(&self) -> bool {
        self.stay() != Stay::Stays && !(0..self.ranges()).any(|range| self.serves(range))
    }

    /// How often those whom it sends what it has came further than they ever were.
    pub(crate) fn reached(&self) -> u64 {
        self.reached.steps
    }

    /// Notes how far those are whom it sends what it has.
    pub(super) fn note_reached(&mut self) {
        if self.stay() == Stay::Stays {
            return;
        }
        let at = self.pass.bucket.unwrap_or(0) as u64;
        for range in 0..self.ranges() {
            for node in bits(self.targets[range]) {
                let place = match self.syncs[range][node] {
                    Sync::Ready => (Leg::Waits, at),
                    Sync::Walking => (Leg::Comes, at),
                    Sync::Done => (Leg::Done, 0),
                    _ => continue,
                };
                self.reached.come((range, node), place);
            }
        }
    }

    /// One that was sent all of a range looks for what it has beside, and is so far.
    pub(super) fn looks_through(&mut self, from: usize, of: Of, at: u64) {
        let range = usize::from(of.range);
        let is_leaving = self.stay() != Stay::Stays && self.is_of(of);
        if is_leaving && self.syncs[range][from] == Sync::Ended {
            self.reached.come((range, from), (Leg::Looks, at));
        }
    }

    /// Whether nothing is under way to others, or waits for them.
    pub fn is_drained(&self) -> bool {
        let is_held = self.others().any(|node| self.peers[node].link.held() > 0);
        !is_held && self.waiting.is_empty() && self.forwards.is_empty()
    }

    /// The others that are there and stay, a bit each.
    pub fn stayers(&self) -> u64 {
        self.alive() & !self.leaving & !(1 << self.me)
    }

    /// The nodes in the order in which they are to serve a range: those that leave come last.
    pub(super) fn around(&self, range: usize) -> impl Iterator<Item = usize> + Clone {
        let leaves = |node: &usize| self.leaving & 1 << node != 0;
        let stay = self.roster.around(range).filter(move |node| !leaves(node));
        stay.chain(self.roster.around(range).filter(leaves))
    }

    /// Whether a range that this node serves has too few copies with those who stay: then one who
    /// leaves and has it is needed.
    pub(super) fn needs(&self, range: usize, targets: u64) -> bool {
        bits(targets & !self.leaving).any(|node| self.syncs[range][node] != Sync::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_anew_does_not_come_further_before_it_is_where_it_was() {
        let mut reached = Reached::default();
        let mut steps = |who, place| {
            let before = reached.steps;
            reached.come(who, place);
            reached.steps - before
        };
        for round in [1, 0, 0] {
            assert_eq!(steps((0, 1), (Leg::Waits, 7)), round);
            assert_eq!(steps((0, 1), (Leg::Comes, 5)), round);
        }
        assert_eq!(steps((0, 1), (Leg::Comes, 6)), 1);
        // Others are others.
        assert_eq!(steps((0, 2), (Leg::Comes, 5)), 1);
        assert_eq!(steps((1, 1), (Leg::Comes, 5)), 1);
        assert_eq!(steps((0, 1), (Leg::Looks, 1)), 1);
        assert_eq!(steps((0, 1), (Leg::Done, 0)), 1);
        assert_eq!(steps((0, 1), (Leg::Done, 0)), 0);
    }

    #[test]
    fn who_is_lost_comes_further_again_a_few_times() {
        let mut reached = Reached::default();
        let mut comes = |node| {
            let before = reached.steps;
            reached.come((0, node), (Leg::Comes, 5));
            reached.lose(1);
            reached.steps - before
        };
        assert_eq!([1; 6].map(&mut comes), [1, 1, 1, 1, 0, 0]);
        // Others are others.
        assert_eq!([2; 2].map(&mut comes), [1, 0]);
    }
}
