//! Reads of copies, where clients may read them ([`Options::reads_copies`], and tails of chains).
//!
//! A copy may be read when the range's server said so, and as long as it is sure that the server
//! has not given it up: the server takes a node for dead when it has not heard it for `dead_after`,
//! so a copy is read until half of that has passed since it sent the last frame that the server
//! says it heard. Who serves the range is gone, or another: it is read no more, until told again.
//!
//! Under `acked`, then, whoever reads finds what was confirmed before: a write is confirmed when
//! all copies that may be read have it, and when those that are to be read no more know that.
//! Copies may differ on what is not confirmed yet. Under `async` a copy is behind; what it shows of
//! a key never goes back while the same node serves the range.
//!
//! [`Options::reads_copies`]: super::Options::reads_copies

use super::super::wire::{Message, Of};
use super::{Node, bits};
use rhythm_net::Time;

impl Node {
    /// Tells a node, if it may be so, that it may read a range that this one serves.
    pub(super) fn let_read(&mut self, range: usize, node: usize) {
        if self.options.reads_copies() && self.is_alive(node) {
            let of = self.of(range);
            (self.peers[node].link).write(|out| Message::Reads(of).write(out));
        }
    }

    /// The server of a range says that it may be read here.
    pub(super) fn may_read(&mut self, from: usize, of: Of) {
        let range = usize::from(of.range);
        if self.follows(from, of)
            && self.complete & 1 << range != 0
            && self.incoming[range].is_none()
        {
            self.reads |= 1 << range;
        }
    }

    pub(super) fn stop_reading(&mut self, range: usize) {
        if self.reads & 1 << range != 0 {
            self.reads &= !(1 << range);
            // At once: what comes next may not be shown here.
            self.view.set_reads_until(range, Time::ZERO);
            // Workers may have read until now, by clocks that may show the next second: what they
            // read looks as if it had been put.
            self.touched[range] = self.touched[range].max(self.second + 1);
        }
    }

    /// Who serves these ranges is not heard, or another.
    pub(super) fn lose_reads_of(&mut self, node: usize) {
        let peer = &mut self.peers[node];
        (peer.probe, peer.heard_me) = (None, Time::ZERO);
        for range in bits(self.reads) {
            if usize::from(self.claims[range].node) == node {
                self.stop_reading(range);
            }
        }
    }

    /// A node heard this one's frames up to this one.
    pub(super) fn heard_by(&mut self, node: usize, count: u64) {
        let peer = &mut self.peers[node];
        if let Some((probe, at)) = peer.probe
            && probe <= count
        {
            (peer.probe, peer.heard_me, peer.knew_me) = (None, at, at);
        }
    }

    /// Tells workers what they may read.
    pub(super) fn tell_reads(&mut self) {
        if !self.options.reads_copies() && !self.options.scheme.is_chain() {
            return;
        }
        for range in 0..self.ranges() {
            let server = usize::from(self.claims[range].node);
            let heard = self.peers[server].heard_me;
            let may = self.reads & 1 << range != 0 && heard > Time::ZERO;
            let until = match may {
                true => (heard + self.shown_for()).min(self.may_write_until()),
                false => Time::ZERO,
            };
            self.view.set_reads_until(range, until);
        }
    }
}
