//! Who is there: nodes are greeted, heard, taken for dead, and refused where they were told
//! something else.

use super::super::link::Link;
use super::super::wire::Head;
use super::progress::Refused;
use super::{Effects, Node, Sync};
use rhythm_net::Time;

impl Node {
    /// A node that was told otherwise said what. It is not spoken to, and that is said once.
    pub fn refuse(&mut self, node: usize, digest: u64, theirs: &[u8], now: Time) {
        let known = self.refused.get_mut(&node);
        if let Some(refused) = known.filter(|refused| refused.digest == digest) {
            refused.heard = now;
            return;
        }
        let Some((name, differs)) = self.terms.differences(theirs) else {
            return;
        };
        tracing::warn!(
            node = name,
            differs,
            "a node of the ring was told something else: it is refused"
        );
        let said = format!("{name} was told something else: {differs}");
        let heard = now;
        self.refused.insert(
            node,
            Refused {
                digest,
                said,
                heard,
            },
        );
    }

    /// Why this node does not begin: it serves nothing, nor does anybody that it knows, and a node
    /// is there that was told something else. That one may serve everything, and would go on to:
    /// clients would see two rings, of which each says that it has all.
    pub(super) fn is_kept_by(&self, now: Time) -> Option<&str> {
        let begins = self.claims.iter().all(|claim| claim.epoch == 0);
        let lasts = |refused: &&Refused| now.since(refused.heard) < self.options.settled_after;
        let refused = self.refused.values().find(lasts).filter(|_| begins);
        refused.map(|refused| refused.said.as_str())
    }

    /// Something came of a node of this ring, though no whole frame yet: it is there, and is told
    /// that it gets through.
    pub fn heard(&mut self, node: usize, now: Time) {
        if let Some(peer) = self.peers.get_mut(node) {
            peer.heard = now;
            peer.parts = peer.parts.wrapping_add(1);
        }
    }

    /// This node has its turn. Where that comes late, because its thread was kept from its
    /// processor, what others said meanwhile may not be read yet: nobody is judged by the time
    /// before.
    pub(super) fn look(&mut self, now: Time) {
        if now.since(self.looked_at) >= self.options.dead_after / 2 {
            self.looks_since = now;
        }
        self.looked_at = self.looked_at.max(now);
    }

    /// Why a node that was there is not any more, if it is not.
    pub(super) fn why_dead(&self, node: usize, now: Time) -> Option<&'static str> {
        let peer = &self.peers[node];
        let lasts = |since: Time| now.since(since.max(self.looks_since));
        let takes_nothing = (peer.link.stuck_since())
            .is_some_and(|since| lasts(since) >= self.patience(self.options.stuck_after));
        if peer.session == 0 {
            None
        } else if lasts(peer.heard) >= self.patience(self.options.dead_after) {
            Some("it is silent")
        } else {
            takes_nothing.then_some("it takes nothing")
        }
    }

    /// Whether a frame is of its sender's last session; begins a new one.
    pub(super) fn meet(&mut self, from: usize, head: &Head, now: Time, out: &mut Effects) -> bool {
        let peer = &mut self.peers[from];
        if head.session < peer.last_session {
            return false;
        }
        if head.session > peer.last_session {
            if peer.last_session != 0 {
                self.lose(from, now, out);
            }
            let peer = &mut self.peers[from];
            (peer.last_session, peer.count) = (head.session, 0);
            peer.complete = 0;
            peer.counts.fill(0);
            peer.knew_me = now;
            self.leaving &= !(1 << from);
        }
        let was_there = std::mem::replace(&mut self.peers[from].session, head.session) != 0;
        if !was_there {
            self.refused.remove(&from);
            tracing::info!(node = self.view.name(from), "a node of the ring is there");
        }
        true
    }

    /// What is under way with a node, and known of it, is gone.
    pub(super) fn lose(&mut self, node: usize, now: Time, out: &mut Effects) {
        self.renew_without(node);
        self.lose_flushes(node, out);
        let peer = &mut self.peers[node];
        (peer.session, peer.complete) = (0, 0);
        peer.counts.fill(0);
        peer.epochs.fill(0);
        peer.losses += 1;
        peer.resent += peer.link.resent();
        peer.link = Link::new(now);
        // Until all others are met, nothing is confirmed without them.
        let is_unmet = self.lease.unmet & 1 << node != 0;
        let sync = if is_unmet { Sync::Kept } else { Sync::None };
        for range in &mut self.syncs {
            range[node] = sync;
        }
        // Were it to be ready for what was begun before, that would be for what begins anew.
        for range in 0..self.ranges() {
            if usize::from(self.claims[range].node) == node {
                self.incoming[range] = None;
            }
        }
        self.lose_reads_of(node);
        self.forget_told(node);
        self.flushes.lose(node);
        self.forwards.lose(node, out);
    }
}
