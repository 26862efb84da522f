//! Nodes that are in the roster no more, and may be alive, with all they had: where etcd is away,
//! or comes back with nothing, all leases end, and one after the other has another.
//!
//! A range that nobody in the roster has complete is not begun with nothing
//!
//! 1. while one speaks that is not in it, and says that it has the range, or had it under a claim
//!    that is newer than of what those in the roster have of it;
//! 2. for as long after the claimant went, or this node got its lease, as one is waited for that is
//!    cut off, unless the claimant said that it ends;
//! 3. shortly after this node got its lease: such ones may be about to reach it;
//! 4. while another in the roster hears such a one, who may not know of this node.
//!
//! One that is let go, and alive, speaks on to those it knew (`lease.rs`).

use super::super::wire::{Claim, Head, Stay};
use super::lease::CUT_OFF;
use super::peer::Outside;
use super::{Node, bits};
use rhythm_net::Time;
use std::time::Duration;

/// How long those who may be alive are looked for, in times that one is silent before it is dead.
const LOOKS: u32 = 2;

impl Node {
    /// A node that is not in the roster said something to all.
    pub(super) fn overhear(&mut self, from: usize, head: &Head, now: Time) {
        let claims = head.claims.iter().zip(&self.claims).enumerate();
        let newer = claims.filter(|(_, (theirs, known))| theirs.epoch >= known.epoch);
        let newer = newer.fold(0, |set, (range, _)| set | 1_u64 << range);
        let peer = &mut self.peers[from];
        peer.has_ended = head.stay == Stay::Gone;
        peer.outside = (!peer.has_ended).then_some(Outside {
            heard: now,
            has: head.complete & newer,
            counts: head.counts.clone(),
        });
    }

    /// A node is in the roster no more.
    pub(super) fn goes_outside(&mut self, node: usize, now: Time) {
        let peer = &mut self.peers[node];
        peer.gone_at = now;
        peer.outside = (!peer.has_ended).then_some(Outside {
            heard: peer.heard,
            has: peer.complete,
            counts: peer.counts.clone(),
        });
    }

    /// Forgets those who are in the roster no more and were silent for the length of a lease while
    /// this node has its own: they are dead. Had they another lease, or none, they would speak.
    pub(super) fn forget_silent(&mut self, now: Time) {
        let has_lease = self.may_write_until() > now;
        let Some(lease) = self.options.lease.filter(|_| has_lease) else {
            return;
        };
        let looks_since = self.looks_since;
        for peer in &mut self.peers {
            let is_silent = |of: &mut Outside| now.since(of.heard.max(looks_since)) >= lease;
            peer.outside.take_if(is_silent);
        }
    }

    /// Whether a range that nobody serves waits for one who is not in the roster.
    pub(super) fn awaits(&self, range: usize, now: Time) -> bool {
        let Some(lease) = self.options.lease.filter(|_| !self.most_worth(range).0) else {
            return false;
        };
        let is_told = |node: usize| self.peers[node].awaited & 1 << range != 0;
        let (speak, others) = (self.outside(range, lease, now), &mut self.others());
        let looks = now.since(self.lease.since) < LOOKS * self.options.dead_after;
        looks || speak != 0 || others.any(is_told) || self.claimant(range, lease, now) != 0
    }

    /// The nodes, a bit each, that are not in the roster, speak, and have more of a range than
    /// anybody in it.
    fn outside(&self, range: usize, lease: Duration, now: Time) -> u64 {
        let most = self.most_worth(range);
        let has_more = |node: &usize| {
            let outside = self.peers[*node].outside.as_ref();
            outside
                .filter(|of| now.since(of.heard) < lease)
                .is_some_and(|of| {
                    let worth = match of.has & 1 << range != 0 {
                        true => (true, 0),
                        false => (false, of.counts[range]),
                    };
                    worth > most
                })
        };
        let strangers = (0..self.peers.len()).filter(|node| !self.is_member(*node));
        let more = strangers.filter(has_more);
        more.fold(0, |set, node| set | 1 << node)
    }

    /// Who claims a range, a bit, if he is not in the roster, and may be alive.
    fn claimant(&self, range: usize, lease: Duration, now: Time) -> u64 {
        let Claim { epoch, node } = self.claims[range];
        let node = usize::from(node);
        let peer = &self.peers[node];
        let since = peer.gone_at.max(self.lease.since);
        let may_live = epoch > 0
            && node != self.me
            && !self.is_member(node)
            && !peer.has_ended
            && now.since(since) < CUT_OFF * lease;
        u64::from(may_live) << node
    }

    /// Finds the ranges that wait for those who are not in the roster, and speak to this node: the
    /// others are told so. And says in the log who keeps a range that nobody serves: one that has
    /// no lease; or that has one, and is not heard.
    pub(super) fn look_outside(&mut self, now: Time) {
        self.awaited = 0;
        let Some(lease) = self.options.lease else {
            return;
        };
        let unserved = (0..self.ranges()).filter(|range| self.server(*range).is_none());
        let unserved: Vec<usize> = unserved.collect();
        let (mut keepers, mut awaited) = (0, 0);
        for range in &unserved {
            let outside = self.outside(*range, lease, now);
            awaited |= u64::from(outside != 0) << range;
            if !self.most_worth(*range).0 {
                keepers |= outside | self.claimant(*range, lease, now);
            }
        }
        self.awaited = awaited;
        if unserved.is_empty() || self.may_write_until() <= now {
            self.told_awaited = 0;
            return;
        }
        let is_silent = |node: &usize| now.since(self.peers[*node].heard) >= 2 * lease;
        let silent = (self.others()).filter(is_silent);
        let silent = silent.fold(0, |set, node| set | 1_u64 << node);
        for node in bits((keepers | silent) & !self.told_awaited) {
            let name = self.view.name(node);
            match silent & 1 << node != 0 {
                true => tracing::warn!(
                    node = name,
                    "keys that nobody serves wait for a node that has its lease, and is not heard: \
                     mend its way to the others, or end it"
                ),
                false => tracing::warn!(
                    node = name,
                    "keys that nobody serves wait for a node that may have them, and has no lease: \
                     mend its way to etcd, or end it"
                ),
            }
        }
        self.told_awaited = keepers | silent;
    }
}
