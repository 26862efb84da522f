//! Epochs of claims, and which copies count. In a ring of a file a node that is not heard may stand
//! still, and say later that it has what it had: what it says of itself tells how old that is.
//!
//! A claim that is renewed is no other one: what was said before is as good. It says that those
//! whom its node does not reach are left out. Each node says of each range the last epoch under
//! which it is sent what is confirmed, and who has it under an older one than another may miss
//! something.

use super::super::wire::{Message, Of};
use super::progress::Sync;
use super::{Node, bits};

/// In a ring of a file, the epochs of one tenure: so often, but for one, a claim can be renewed.
/// Who takes a range that was renewed more often than another knows has the higher claim, since
/// that number stays.
pub(super) const TENURE: u64 = 1_000_000;

impl Node {
    /// In which tenure an epoch is. With leases each is one.
    pub(super) fn tenure(&self, epoch: u64) -> u64 {
        match self.options.lease {
            None => epoch / TENURE,
            Some(_) => epoch,
        }
    }

    /// The epoch of the next tenure.
    pub(super) fn next_tenure(&self, epoch: u64) -> u64 {
        epoch.saturating_add(match self.options.lease {
            None => TENURE,
            Some(_) => 1,
        })
    }

    /// Whether something is of the claim that is known, or was before that was renewed.
    pub(super) fn is_of(&self, of: Of) -> bool {
        let claim = self.claims.get(usize::from(of.range));
        claim.is_some_and(|claim| self.tenure(claim.epoch) == self.tenure(of.epoch))
    }

    /// In a ring of a file, this node begins to serve a range: who is not there may have it, and
    /// does not hear of that. It is as if that one were given up now.
    pub(super) fn begin_without(&mut self, range: usize) {
        let are_there = self.others().all(|node| self.is_alive(node));
        if !are_there && self.can_renew(range) {
            self.claims[range].epoch += 1;
        }
        self.counts[range] = self.claims[range].epoch;
    }

    /// Whether a claim can be renewed: its tenure has another epoch.
    fn can_renew(&self, range: usize) -> bool {
        self.claims[range].epoch % TENURE < TENURE - 1
    }

    /// Whether another says that it has a range, and may miss what this node has of it: it was
    /// given up, and is there again, and who served the range died before he told it.
    ///
    /// It misses nothing where the range changed hands since, and nobody was given up: then it is
    /// only that he died before he told it that it counts with him, too.
    pub(super) fn is_behind(&self, node: usize, range: usize) -> bool {
        let peer = &self.peers[node];
        let has = peer.complete & 1 << range != 0;
        let counts = peer.counts[range];
        let is_less = counts < self.counts[range];
        let is_before = self.next_tenure(counts) == self.counts[range];
        self.options.lease.is_none() && has && is_less && !is_before
    }

    /// A node is given up that may say later that it has ranges that this one serves, or does not
    /// know yet that it has not. Before anything is confirmed without it, those who have them know
    /// that its copies do not count. With leases it gives them up by itself.
    pub(super) fn renew_without(&mut self, node: usize) {
        if self.options.lease.is_some() {
            return;
        }
        let is_told = self.peers[node].link.confirmed().is_none();
        let mut told = 0_u64;
        for range in 0..self.ranges() {
            let is_out = match self.syncs[range][node] {
                Sync::None => true,
                Sync::Out => is_told,
                _ => false,
            };
            if is_out || !self.can_renew(range) || !self.serves(range) {
                continue;
            }
            self.claims[range].epoch += 1;
            self.counts[range] = self.claims[range].epoch;
            let others = bits(self.alive() & !(1 << self.me | 1 << node));
            let count =
                others.filter(|other| !matches!(self.syncs[range][*other], Sync::None | Sync::Out));
            let count = count.fold(0, |set, other| set | 1 << other);
            self.say_counts(range, count);
            told |= count;
        }
        self.know_renewed(told);
    }

    /// Tells nodes, a bit each, that they are sent what is confirmed of a range under its claim.
    pub(super) fn say_counts(&mut self, range: usize, nodes: u64) {
        let of = self.of(range);
        for node in bits(nodes) {
            (self.peers[node].link).write(|out| Message::Counts(of).write(out));
        }
    }

    /// Nothing is confirmed before these nodes, a bit each, know what they were told of claims.
    fn know_renewed(&mut self, nodes: u64) {
        if nodes == 0 {
            return;
        }
        self.batch += 1;
        self.renewed = self.batch;
        for node in bits(nodes) {
            self.peers[node].link.mark(self.batch);
        }
    }

    /// Who serves a range says that this node is sent what is confirmed of it under an epoch. That
    /// stays so until it is told of another: that the claim was renewed it may hear before it hears
    /// whether it counts then, and who served the range may be dead by then.
    pub(super) fn count_on(&mut self, from: usize, of: Of) {
        let range = usize::from(of.range);
        // What is known of a claim that was renewed since does not matter: who was told more has a
        // greater epoch.
        if self.follows(from, of) && self.options.lease.is_none() {
            self.counts[range] = self.counts[range].max(of.epoch);
        }
    }
}
