//! Flushes of all items.
//!
//! A client says it at one node, and every node that hears of it says it to all others before
//! anything else. So what a node says of its ranges before that was written there before its items
//! were gone, and what it says after was written since: another node that was flushed sooner drops
//! what it gets of it until then, and one that is flushed later never loses what was written since.
//! What is on its way down a chain is dropped with the chain, which ends before the flush is said,
//! and begins anew when all have heard that: what goes down a chain may overtake it.
//!
//! Where two nodes meet, each says first of what it heard: what follows was written since. So none
//! waits for one who does not say it, as the two did not know each other when he did. One that has
//! nothing yet has heard of it by that, and waits for nobody: others may have missed it. One that
//! has something may have missed it long ago, and others written there since: it goes on as it is.
//! Should it be said in the end by one who had not heard, or to one, then what the two have of each
//! other is not what it would be: they begin anew.
//!
//! Keys that came of who served a range, and had not heard yet, are gone when another serves it:
//! all who have copies drop them then, and so does that one, before anybody writes them again. But
//! one that had nothing when it heard has them all, and knows of none: so who has a copy then is
//! sent it anew by that one, whichever it is. What stays is as that one has it.
//!
//! What is written while a flush is under way may be gone with it or not; all nodes agree on that.
//!
//! It is done and said by the thread of the ring in one go. Were a worker to do it, others might
//! write behind that and hand it over before the flush is said: then copies would have it, and drop
//! it. Who said it is answered when all that are there have heard of it, and is told where one of
//! them was lost before: with what it had it may be there again.
//!
//! One that is to come is known to the node where it was said, which says it to the others when its
//! second comes. Were it known to all, their seconds would not begin at one moment, and who came in
//! between would not hear of it.

use super::super::link::Link;
use super::super::local::Local;
use super::super::wire::{Flush, Message};
use super::effects::Effects;
use super::progress::IncomingStage;
use super::{Node, bits, life};

impl Node {
    /// A client of this node flushed all items here. The nodes that are told, a bit each.
    pub(super) fn flush_all(&mut self, local: &Local<'_, '_>) -> u64 {
        self.flushes.set_due(None);
        let flush = self.flushes.next(self.me);
        let others = self.tell_flush(|link| link.write_flush(flush), local);
        self.flushes.begin(flush, others, self.batch);
        others
    }

    /// A client of this node has all items go in a second of its store's clock. It takes the place
    /// of one that was to come here.
    pub(super) fn flush_at(&mut self, second: u32) {
        self.flushes.set_due(Some(second));
    }

    pub(super) fn flush_if_due(&mut self, local: &mut Local<'_, '_>) {
        if self.flushes.is_due(local.now()) {
            local.flush();
            self.flush_all(local);
        }
    }

    /// Another node says that all items are gone.
    pub(super) fn flushed(
        &mut self,
        from: usize,
        flush: Flush,
        local: &mut Local<'_, '_>,
        out: &mut Effects,
    ) {
        let (mut anew, present) = (0, self.present_life(flush));
        if self.flushes.is_new(flush, present) {
            local.flush();
            anew = self.flushes.said_by(flush, present);
            let others = self.tell_flush(|link| link.write_flush(flush), local);
            let unheard = others & !(1 << from | anew);
            self.flushes.begin(flush, unheard, self.batch);
        } else if self.flushes.is_early(flush, present, from) {
            match self.has_nothing() {
                true => local.flush(),
                false => anew = 1 << from,
            }
        }
        self.flush_heard(from, flush, local);
        for node in bits(anew) {
            self.begin_anew_with(node, out);
        }
    }

    /// Another node has heard of this one. All that comes of it was written since.
    pub(super) fn flush_heard(&mut self, from: usize, flush: Flush, local: &mut Local<'_, '_>) {
        let is_new = self.flushes.is_new(flush, self.present_life(flush));
        if is_new && self.has_nothing() {
            local.flush();
            let heard = Message::Heard(flush);
            self.tell_flush(|link| link.write(|out| heard.write(out)), local);
            self.flushes.take_for_heard(flush, self.batch);
        }
        for key in self.flushes.said(flush, from) {
            local.remove(&key, |_| true);
        }
    }

    /// A node is there that was not, and is told what this one has heard of.
    pub(super) fn say_heard(&mut self, node: usize) {
        for flush in self.flushes.heard() {
            let link = &mut self.peers[node].link;
            link.write(|out| Message::Heard(flush).write(out));
        }
    }

    /// Another serves a range: what this node waits for before it drops keys of it may be said when
    /// they are written again.
    pub(super) fn flush_moved(&mut self, range: usize) {
        let keys = self.take_flushed(range);
        self.flushes.drop_soon(keys);
    }

    /// What came of a range, and is dropped when who served it says so.
    pub(super) fn take_flushed(&mut self, range: usize) -> Vec<Vec<u8>> {
        let placement = self.view.placement();
        self.flushes.take(|key| placement.range(key) == range)
    }

    pub(super) fn drop_flushed(&mut self, local: &mut Local<'_, '_>) {
        for key in self.flushes.take_gone() {
            local.remove(&key, |_| true);
        }
    }

    /// Whether a node has not said a flush of which this one has heard. Then it may have what those
    /// have dropped who said it.
    pub(super) fn is_ahead_of(&self, node: usize) -> bool {
        (self.flushes).is_ahead_of(node, |flush| self.present_life(flush))
    }

    /// Which life is there of the node at which a flush was said; 0: none is known.
    fn present_life(&self, flush: Flush) -> u64 {
        let by = self.peers.get(usize::from(flush.by));
        by.map_or(0, |by| life(by.session))
    }

    /// Whether nothing that it has will count: what it is sent comes when it is ready.
    fn has_nothing(&self) -> bool {
        let mut incoming = self.incoming.iter().flatten();
        self.complete == 0 && incoming.all(|of| of.stage == IncomingStage::Waiting)
    }

    /// What this node has of another is to be sent anew, and the other way round.
    fn begin_anew_with(&mut self, node: usize, out: &mut Effects) {
        let now = self.looked_at;
        for range in 0..self.ranges() {
            if usize::from(self.claims[range].node) == node {
                self.is_old(range);
                self.stop_reading(range);
            }
        }
        self.peers[node].mine += 1;
        // It is well, and goes on to serve what it serves.
        self.peers[node].anew_until = now + self.options.dead_after;
        self.lose(node, now, out);
        self.await_told(1 << node, now);
    }

    /// All others are told of a flush, with a batch. Their bits.
    fn tell_flush(&mut self, tell: impl Fn(&mut Link), local: &Local<'_, '_>) -> u64 {
        // What of the chains is sent anew by that and written since is sent again behind the flush,
        // when who wrote it hands it over.
        self.unchain_all(local);
        let others = self.alive() & !(1 << self.me);
        self.batch += 1;
        for node in bits(others) {
            let link = &mut self.peers[node].link;
            tell(link);
            link.mark(self.batch);
        }
        others
    }
}

#[cfg(test)]
mod tests;
