//! Nodes that are in the roster no more, and may be alive, with all they had: where etcd is away, or
//! comes back with nothing, all leases end, and one after the other has another.
//!
//! A range that nobody in the roster has complete is not begun with nothing
//!
//! 1. while one speaks that is not in it, and says that it has the range, or had it under a claim
//!    that is newer than of what those in the roster have of it;
//! 2. for as long after the claimant went, or this node got its lease, as one is waited for that is
//!    cut off, unless the claimant said that it ends;
//! 3. shortly after this node got its lease: such ones may be about to reach it.
//!
//! One that is let go, and alive, speaks on to those it knew (`lease.rs`).

use super::super::wire::{Claim, Head, Stay};
use super::lease::CUT_OFF;
use super::{Node, bits};
use rhythm_net::Time;

/// How long those who may be alive are looked for, in times that one is silent before it is dead.
const LOOKS: u32 = 2;

/// What a node says that is not in the roster.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    heard: Time,
    /// The ranges that it has complete, a bit each, under a claim that is no older than the one
    /// that is known here.
    has: u64,
    /// As it says of itself (`Node::counts`).
    counts: Vec<u64>,
}

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

    /// The nodes, a bit each, that are not in the roster, and may have what nobody in it has of a
    /// range; where it is not known who may, this one.
    pub(super) fn may_be_outside(&self, range: usize, now: Time) -> u64 {
        let (has, most) = self.most_worth(range);
        let Some(lease) = self.options.lease.filter(|_| !has) else {
            return 0;
        };
        let speaks = |node: &usize| {
            let outside = self.peers[*node].outside.as_ref();
            outside.is_some_and(|of| {
                let has_more = of.has & 1 << range != 0 || of.counts[range] > most;
                has_more && now.since(of.heard) < lease
            })
        };
        let strangers = (0..self.peers.len()).filter(|node| !self.is_member(*node));
        let speak = strangers
            .filter(speaks)
            .fold(0, |set, node| set | 1 << node);
        let looks = now.since(self.lease.since) < LOOKS * self.options.dead_after;
        let Claim { epoch, node } = self.claims[range];
        let node = usize::from(node);
        let peer = &self.peers[node];
        let since = peer.gone_at.max(self.lease.since);
        let may_live = epoch > 0
            && node != self.me
            && !self.is_member(node)
            && !peer.has_ended
            && now.since(since) < CUT_OFF * lease;
        speak | u64::from(looks) << self.me | u64::from(may_live) << node
    }

    /// Says whom a range waits for that nobody serves, and that keep it: they speak, and have no
    /// lease; or have one, and do not speak.
    pub(super) fn tell_awaited(&mut self, now: Time) {
        let Some(lease) = self.options.lease else {
            return;
        };
        let unserved = (0..self.ranges()).filter(|range| self.server(*range).is_none());
        let unserved: Vec<usize> = unserved.collect();
        if unserved.is_empty() || self.may_write_until() <= now {
            self.awaited = 0;
            return;
        }
        let outside = unserved.into_iter();
        let outside = outside.fold(0, |set, range| set | self.may_be_outside(range, now));
        let outside = outside & !(1 << self.me);
        let is_silent = |node: &usize| now.since(self.peers[*node].heard) >= 2 * lease;
        let silent = (self.others()).filter(is_silent);
        let silent = silent.fold(0, |set, node| set | 1_u64 << node);
        let new = (outside | silent) & !self.awaited;
        for node in bits(new) {
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
        self.awaited = outside | silent;
    }
}
