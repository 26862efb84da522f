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
//! waits for one who does not say it, as the two did not know each other when he did.
//!
//! Keys that came of who served a range, and had not heard yet, are gone when another serves it:
//! all who have copies drop them then, and so does that one, before anybody writes them again.
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

use super::super::local::Local;
use super::super::wire::{Flush, Message};
use super::{Node, bits, life};

impl Node {
    /// A client of this node flushed all items here. The nodes that are told, a bit each.
    pub(super) fn flush_all(&mut self, local: &Local<'_, '_>) -> u64 {
        self.flushes.set_due(None);
        let flush = self.flushes.next(self.me);
        self.say_flush(flush, None, local)
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
    pub(super) fn flushed(&mut self, from: usize, flush: Flush, local: &mut Local<'_, '_>) {
        let by = self.peers.get(usize::from(flush.by));
        let present = by.map_or(0, |by| life(by.session));
        if self.flushes.is_new(flush, present) {
            local.flush();
            self.say_flush(flush, Some(from), local);
            return;
        }
        self.flush_heard(from, flush, local);
    }

    /// Another node has heard of this one. All that comes of it was written since.
    pub(super) fn flush_heard(&mut self, from: usize, flush: Flush, local: &mut Local<'_, '_>) {
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

    fn say_flush(&mut self, flush: Flush, from: Option<usize>, local: &Local<'_, '_>) -> u64 {
        // What of the chains is sent anew by that and written since is sent again behind the flush,
        // when who wrote it hands it over.
        self.unchain_all(local);
        let others = self.alive() & !(1 << self.me);
        self.batch += 1;
        for node in bits(others) {
            let link = &mut self.peers[node].link;
            link.write_flush(flush);
            link.mark(self.batch);
        }
        let unheard = from.map_or(others, |from| others & !(1 << from));
        self.flushes.begin(flush, unheard, self.batch);
        others
    }
}

#[cfg(test)]
mod tests;
