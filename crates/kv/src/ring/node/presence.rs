//! Who is there: nodes are greeted, heard, and taken for dead. What holds of one life of a node
//! says nothing of another: that one may be a second node of its name (`refused.rs`).

use super::super::link::Link;
use super::super::wire::Head;
use super::peer::life;
use super::{Effects, Node, Pause, Sync};
use rhythm_net::Time;

impl Node {
    /// Something came of a node of this ring, though no whole frame yet: it is there, and is told
    /// that it gets through. Where another life of it speaks as well, it may be of either.
    pub fn heard(&mut self, node: usize, now: Time) {
        let lasts = self.options.dead_after;
        if let Some(peer) = self.peers.get_mut(node) {
            if peer.second.is_none_or(|second| now >= second.heard + lasts) {
                peer.heard = now;
            }
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

    /// Whether a node is heard, and acknowledges what it is sent: where it does not for as long as
    /// one without a lease has until it is dead, it may be dead.
    pub(super) fn responds(&self, node: usize, now: Time) -> bool {
        let peer = &self.peers[node];
        let stuck = peer.link.stuck_since();
        let since = stuck.map_or(peer.heard, |since| since.min(peer.heard));
        now.since(since.max(self.looks_since)) < self.options.dead_after
    }

    /// Whether a frame of another life of a node counts from now on. While that which is known is
    /// heard, it does not. One that looks as if it were earlier, by a clock that was set back, does
    /// where what it says is not late: it knows the session that began when the last was lost, or a
    /// frame that was sent when this life had been heard.
    fn succeeds(&self, from: usize, head: &Head, now: Time) -> bool {
        let peer = &self.peers[from];
        let is_later = head.session > peer.last_session;
        match peer.session {
            0 => is_later || head.peer == peer.mine,
            _ => {
                let of = life(head.session);
                let is_of_now = head.peer == peer.mine
                    && (peer.second.as_ref())
                        .is_some_and(|second| second.life == of && head.heard > second.sent);
                (is_later || is_of_now) && now.since(peer.heard) >= self.options.dead_after
            }
        }
    }

    /// Whether a node was just lost that begins anew with this one, or whose next life speaks, and
    /// counts with the next frame: it may serve something by now.
    pub(super) fn is_succeeded(&self, now: Time) -> bool {
        let mut lost = self.others().filter(|node| !self.is_alive(*node));
        lost.any(|node| {
            let peer = &self.peers[node];
            let begins_anew = now < peer.anew_until;
            begins_anew
                || peer.second.is_some_and(|second| {
                    // An earlier one may never count: it may not hear this node.
                    let is_later = second.life > life(peer.last_session);
                    is_later && now.since(second.heard) < self.options.dead_after
                })
        })
    }

    /// Whether a frame is of a life of its sender that took nothing, while another spoke that may.
    fn is_barred(&self, from: usize, head: &Head, now: Time) -> bool {
        let barred = self.peers[from].barred;
        barred.is_some_and(|(of, until)| of == life(head.session) && now < until)
    }

    /// A node took nothing. What this one says comes to where the node is to be: where a second of
    /// its name speaks, that is the one that is there, and it is to have its turn.
    pub(super) fn bar(&mut self, node: usize, now: Time) {
        let until = now + self.options.dead_after;
        let peer = &mut self.peers[node];
        let lasts = self.options.dead_after;
        let other = peer.second.filter(|second| now < second.heard + lasts);
        peer.barred = other.map(|_| (life(peer.session), until));
    }

    /// Whether a frame is of its sender's last session; begins a new one.
    pub(super) fn meet(&mut self, from: usize, head: &Head, now: Time, out: &mut Effects) -> bool {
        if self.is_barred(from, head, now) {
            return false;
        }
        let peer = &mut self.peers[from];
        if peer.is_deaf && head.peer != peer.mine {
            // Were it there by what it says alone, all would wait for it again.
            peer.hears = head.session;
            self.see_whether_heard(from, head, now, out);
            return false;
        }
        (peer.is_deaf, peer.hears) = (false, 0);
        let last = self.peers[from].last_session;
        let is_other = last != 0 && life(head.session) != life(last);
        if is_other && !self.succeeds(from, head, now) {
            self.see_second(from, head, now, out);
            return false;
        }
        if !is_other && head.session < last {
            return false;
        }
        let peer = &mut self.peers[from];
        if head.session != last {
            if peer.last_session != 0 {
                // Where what another life said before it counted was dropped, it is to begin anew,
                // too. One whose first frame counts has begun already, and may have asked for
                // something that would be lost with that.
                let of = life(head.session);
                let second = peer.second.filter(|second| second.life == of);
                let is_second = second.is_some_and(|second| second.was_dropped);
                let was_dropped = is_second || peer.barred.is_some();
                peer.mine += u64::from(is_other && was_dropped);
                self.lose(from, now, out);
            }
            let peer = &mut self.peers[from];
            (peer.last_session, peer.count) = (head.session, 0);
            peer.complete = 0;
            peer.counts.fill(0);
            (peer.knew_me, peer.second, peer.barred) = (now, None, None);
            (peer.unheard, peer.has_ended) = (None, false);
            self.leaving &= !(1 << from);
        }
        let was_there = std::mem::replace(&mut self.peers[from].session, head.session) != 0;
        if !was_there {
            self.refused.retain(|(of, _), _| *of != from);
            tracing::info!(node = self.view.name(from), "a node of the ring is there");
            self.say_heard(from);
        }
        true
    }

    /// What is under way with a node, and known of it, is gone.
    pub(super) fn lose(&mut self, node: usize, now: Time, out: &mut Effects) {
        self.renew_without(node);
        self.lose_flushes(node, out);
        let peer = &mut self.peers[node];
        (peer.session, peer.complete, peer.awaited) = (0, 0, 0);
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
        self.reached.lose(node);
        self.flushes.lose(node);
        // It may be who was waited for.
        self.pauses.fill(Pause::default());
        self.forwards.lose(node, out);
    }
}
