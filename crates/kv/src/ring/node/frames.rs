//! What this node has to say to the others, in frames, and to the workers of how much waits for it.

use super::super::wire::{self, Head};
use super::Node;
use super::effects::Effects;
use rhythm_net::Time;

impl Node {
    /// Appends the frames that may be sent now, and says who is released.
    pub fn flush(&mut self, now: Time, out: &mut Effects) {
        self.view.set_may_write_until(self.may_write_until());
        self.view.set_serves_until(self.serves_until());
        self.tell_reads();
        self.release(now, out);
        out.frames.resize_with(self.peers.len(), Vec::new);
        let stay = self.stay();
        for node in self.others() {
            let peer = &mut self.peers[node];
            let mut head = Head {
                from: self.me as u8,
                ring: self.terms.digest(),
                session: peer.mine,
                peer: match peer.session {
                    0 => peer.hears,
                    session => session,
                },
                count: peer.sent,
                seq: 0,
                ack: peer.link.received(),
                heard: peer.count,
                credit: self.options.window,
                gap: peer.link.take_gap(),
                parts: peer.parts,
                stay,
                complete: self.complete,
                counts: std::mem::take(&mut self.counts),
                awaited: self.awaited,
                claims: std::mem::take(&mut self.claims),
            };
            let frames = &mut out.frames[node];
            let before = frames.len();
            let mut send = |seq: u64, messages: &[u8]| {
                head.count += 1;
                head.seq = seq;
                wire::write(&head, messages, frames);
            };
            if peer.session != 0 {
                (peer.link).flush(self.options.again_after, now, &mut send);
            }
            if peer.beat_at <= now {
                // Who is not known yet is told what this node was told.
                let greeting = match peer.session {
                    0 => self.terms.text(usize::MAX),
                    _ => &[],
                };
                send(0, greeting);
            }
            if head.count > peer.sent {
                (peer.sent, peer.beat_at) = (head.count, now + self.options.heartbeat);
                peer.probe.get_or_insert((head.count, now));
            }
            peer.sent_bytes += (frames.len() - before) as u64;
            (self.claims, self.counts) = (head.claims, head.counts);
        }
        self.view.set_full(self.full());
        self.view.set_crowded(self.crowded());
    }

    /// The ranges whose writes are to wait, a bit each: of those that are to have a copy one does
    /// not take what it is sent, be it of this node or of the one before it in a chain.
    fn full(&self) -> u64 {
        let most = self.options.queue_max;
        let chained = self.chained_full();
        let slow = (self.others()).filter(|node| self.peers[*node].link.held() > most);
        let slow = slow.fold(0, |set, node| set | 1_u64 << node);
        if slow == 0 {
            return chained;
        }
        let waits = (0..self.ranges()).filter(|range| self.targets[*range] & slow != 0);
        waits.fold(chained, |ranges, range| ranges | 1 << range)
    }
}
