//! Leases: in a ring whose members etcd knows, a node is dead when its lease is over, and not when
//! it is silent.
//!
//! 1. A node whose lease may be over confirms no writes. When it has another, it first meets all
//!    others anew: they know whether somebody took what it served. With its first, it meets them
//!    before it is sent or serves anything: nobody is to take that because he does not know it.
//! 2. What a node serves is taken when its lease is over, by one that hears all others that have
//!    theirs.
//! 3. A node that is not heard by who serves a range, as far as it knows, for so long that the
//!    other's lease would be over if it were dead, may miss writes: it has the range no longer.
//!    Only some time later the other gives it up, and confirms writes that it does not have. For
//!    that it does not matter whether it has its own lease meanwhile: one that was over by its
//!    clock, and is renewed all the same, says nothing of who heard it.
//! 4. A node whose lease may be over shows what it serves as long as it hears that all others hear
//!    it: until then none of them knows that its lease is over. Who takes a range confirms nothing
//!    of it for as long as that counts. So no read finds less than what was confirmed before, and
//!    where etcd is gone, and nobody else, all can be read. Not so while one may be alive whose
//!    lease was over before, and who was let go: he may have another of which this node, cut from
//!    etcd, does not hear, nor he of this node.
//! 5. One that is in the roster no more, though its lease is there, as when somebody removed its
//!    key, is as one without a lease: others take what it serves as soon as they hear of it. It
//!    speaks on to those it knew: what nobody else has they do not begin with nothing meanwhile
//!    (`outside.rs`).
//! 6. One that was told to serve a range may do so as long as it has its lease, heard or not: who
//!    told it does not go on. When that lease is over, or his own, the range is the other's yet,
//!    who is away: whoever takes it does so by a claim above that, which counts when the other is
//!    back.

use super::super::members::Lease;
use super::{Effects, Node, Roster, Sync, Waiter, bits};
use rhythm_net::Time;
use std::time::Duration;

/// Lengths of a lease after which a node that is not heard, but has its lease, is cut off.
pub(super) const CUT_OFF: u32 = 4;

/// Epochs of claims for one revision of etcd's, which has one whenever a node comes or goes.
const EPOCHS: u64 = 4;

impl Node {
    /// These nodes are there now.
    pub fn enroll(&mut self, roster: Roster, now: Time, out: &mut Effects) {
        let me = 1_u64 << self.me;
        let was_in = self.may_write_until() > now;
        self.lease.is_listed = roster.members() & me != 0;
        if !self.lease.is_listed {
            // It speaks on to those it knew, for they are to hear that it is there, and what it
            // has: it will be a member again.
            self.lease.until = Time::ZERO;
            return self.decide(now, out);
        }
        let gone = self.roster.members() & !roster.members() & !me;
        let come = roster.members() & !self.roster.members() & !me;
        self.lease.unmet &= roster.members();
        if !was_in {
            // Such a one may have taken what this node served.
            self.lease.unmet |= come;
        }
        self.roster = roster;
        for node in bits(come) {
            let peer = &mut self.peers[node];
            (peer.outside, peer.has_ended, peer.heard) = (None, false, now);
        }
        for node in bits(gone) {
            let name = self.view.name(node);
            // Of one that ended in order that was said.
            if !self.peers[node].has_ended {
                tracing::warn!(node = name, "the lease of a node of the ring is over");
            }
            self.goes_outside(node, now);
            self.peers[node].mine += 1;
            self.lose(node, now, out);
        }
        self.decide(now, out);
    }

    /// This node's lease was renewed until a time, or is another one.
    pub fn renewed(&mut self, lease: Lease, now: Time, out: &mut Effects) {
        let Lease {
            until,
            number,
            revision,
        } = lease;
        // A lease under which nobody is registered yet: it is told of once more when one is.
        if until == Time::ZERO {
            self.lease.until = until;
            return;
        }
        let is_same = self.lease.number == number;
        if self.lease.number == 0 {
            // Nobody is to take what it serves because he does not know of it.
            self.lease.unmet = self.roster.members() & !(1 << self.me);
        } else if !is_same {
            self.begin_anew(now, out);
        }
        // What was said of it before it was known to be in the roster no more is late.
        self.lease.until = match is_same && !self.lease.is_listed {
            true => Time::ZERO,
            false => until,
        };
        if !is_same {
            self.lease.since = now;
        }
        self.lease.number = number;
        // Where all who knew of a claim are gone, but for one who was stopped, the next claim is to
        // be greater all the same. A range changes hands twice, at most, when a node comes or goes.
        self.lease.epoch = revision.unsigned_abs().saturating_mul(EPOCHS);
    }

    /// The lease before was over: others may have taken what this node served, and written what it
    /// has copies of.
    fn begin_anew(&mut self, now: Time, out: &mut Effects) {
        self.lease.unmet = self.roster.members() & !(1 << self.me);
        for waiting in std::mem::take(&mut self.waiting) {
            if let Waiter::Worker(ticket) = waiting.waiter {
                out.broken.push(ticket);
            }
        }
        self.answers_held = 0;
        // What of these was forwarded and came to be executed here. Others lose this node, and say
        // so to their clients themselves.
        self.forwards.lose(self.me, out);
        for node in self.others() {
            self.peers[node].mine += 1;
            self.lose(node, now, out);
        }
        self.end_handings();
        for range in 0..self.ranges() {
            if usize::from(self.claims[range].node) != self.me {
                self.may_miss(range);
            }
        }
    }

    /// The epoch of a claim that this node makes of a range that nobody serves.
    pub(super) fn next_epoch(&self, range: usize) -> u64 {
        let next = self.next_tenure(self.claims[range].epoch);
        next.max(self.lease.epoch)
    }

    /// A node was heard that knows of this one's session.
    pub(super) fn met(&mut self, node: usize) {
        self.lease.unmet &= !(1 << node);
        self.peers[node].has_known = true;
    }

    /// Until when this node may confirm writes.
    pub(super) fn may_write_until(&self) -> Time {
        match self.options.lease {
            None => Time::NEVER,
            Some(_) if self.lease.unmet == 0 && self.lease.is_listed => self.lease.until,
            Some(_) => Time::ZERO,
        }
    }

    /// Until when nobody serves what this node does, as far as it can know.
    ///
    /// Who takes it hears this node no more by then, nor does anybody else whom the taker knows:
    /// one that came when this node's lease was over serves nothing before all others know of it.
    /// So it is not served elsewhere before the first of those that this node knows does not hear
    /// it, be that the taker or another. One who knows no others cannot ask. Nor can one who let
    /// somebody go that may be alive (`outside.rs`): that one may have another lease by now, know
    /// nothing of this node, and go on with what it served before.
    pub(super) fn serves_until(&self) -> Time {
        let is_one_outside = self.peers.iter().any(|peer| peer.outside.is_some());
        let heard = self.others().map(|node| self.peers[node].heard_me).min();
        let heard = heard.filter(|at| *at > Time::ZERO && !is_one_outside);
        let by_others = heard.map_or(Time::ZERO, |at| at + self.shown_for());
        by_others.max(self.may_write_until())
    }

    /// How long something may be shown, after a frame was sent, on the word of one that it came to.
    pub(super) fn shown_for(&self) -> Duration {
        self.options.dead_after / 2
    }

    /// A range is taken that another served, whose lease is over. He may show what he has of it.
    pub(super) fn await_unshown(&mut self, now: Time) {
        if self.options.lease.is_some() {
            self.shown_until = now + self.shown_for();
        }
    }

    /// How long another may be silent, or acknowledge nothing, before it is taken for dead.
    pub(super) fn patience(&self, usual: Duration) -> Duration {
        let cut_off = self.options.lease.map(|lease| CUT_OFF * lease);
        cut_off.map_or(usual, |cut_off| cut_off + usual)
    }

    /// Gives up ranges of nodes that have their leases, and do not hear this one: what they write
    /// may not come here.
    pub(super) fn cut_off(&mut self, now: Time) {
        let Some(lease) = self.options.lease else {
            return;
        };
        for range in bits(self.complete) {
            let server = usize::from(self.claims[range].node);
            if server == self.me || !self.is_member(server) {
                continue;
            }
            if now.since(self.peers[server].knew_me) >= CUT_OFF * lease {
                let node = self.view.name(server);
                tracing::warn!(range, node, "who serves a range is not heard");
                self.may_miss(range);
                // Others, who were heard, have what was confirmed without this one.
                self.counts[range] = self.counts[range].saturating_sub(1);
                self.stop_reading(range);
                self.incoming[range] = None;
                self.syncs[range].fill(Sync::None);
            }
        }
    }

    /// Whether what was said to this node cannot have been given up yet by who said it: it did not
    /// stand still, and has its lease.
    pub(super) fn is_attentive(&self) -> bool {
        let now = self.looked_at;
        let stood_still = self.looks_since > self.started
            && now.since(self.looks_since) < self.options.dead_after;
        !stood_still && self.may_write_until() > now
    }

    /// Whether this node knows the others: it heard them, and those that are there know of it, or
    /// it looked for them for long enough; with a lease, they know of it. One that does not may
    /// count an earlier life of this node, and take what that served when it misses it: it would
    /// not hear that this one serves it.
    pub(super) fn knows_others(&self, now: Time) -> bool {
        if self.options.lease.is_some() {
            return self.lease.unmet == 0;
        }
        // Who was not there when this node had looked for it is not looked for again after a pause,
        // but may have spoken meanwhile.
        let lasts = match self.has_settled {
            true => self.options.dead_after,
            false => self.options.settled_after,
        };
        let looks = now.since(self.started.max(self.looks_since));
        let mut others = self.others();
        let knows_all = others.all(|node| {
            let peer = &self.peers[node];
            peer.has_known || peer.last_session != 0 && peer.session == 0
        });
        knows_all || looks >= lasts
    }

    /// Whether enough is known of the others to take what nobody serves. At the start, others may
    /// be there that were not heard of yet, and have what this node has not: it looks for them for
    /// a while, and longer than it waits for those that it has heard, and does not begin beside one
    /// that was told something else. With a lease, it is to know what the others have now.
    pub(super) fn is_settled(&self, now: Time) -> bool {
        let is_heard = |node: usize| {
            self.is_alive(node) && now.since(self.peers[node].heard) < self.options.dead_after
        };
        self.knows_others(now)
            && !self.is_succeeded(now)
            && self.is_kept_by(now).is_none()
            && (self.options.lease.is_none()
                || self.others().all(is_heard) && self.may_write_until() > now)
    }

    /// This node begins to serve what a member may have that it does not hear, and nothing is
    /// confirmed before that one was told, or has given up by itself. With a lease, it is there; of
    /// a file it may be if another life of it speaks, which does not count here yet: another node
    /// may have met it, and sent it what it served.
    pub(super) fn await_members(&mut self) {
        let (now, lasts) = (self.looked_at, self.options.dead_after);
        let may_be_there = |node: &usize| {
            let second = self.peers[*node].second;
            let speaks = second.is_some_and(|second| now.since(second.heard) < lasts);
            !self.is_alive(*node) && (speaks || self.options.lease.is_some())
        };
        let awaited = self.others().filter(may_be_there);
        let awaited = awaited.fold(0, |set, node| set | 1 << node);
        self.await_told(awaited, now);
    }

    /// Nothing is confirmed before these nodes are told what they have, which they are when they
    /// are there, or were silent for so long that they do not count on it.
    pub(super) fn await_told(&mut self, nodes: u64, now: Time) {
        if nodes != 0 {
            self.untold |= nodes;
            self.untold_until = now + self.patience(self.options.dead_after);
        }
    }

    /// Whether confirmations wait for these, for one who may show what he served, or for those who
    /// are to know of a claim that was renewed.
    pub(super) fn holds_back(&mut self, now: Time) -> bool {
        self.untold &= self.roster.members() & !self.alive();
        if now >= self.untold_until {
            self.untold = 0;
        }
        let is_known = self.others().all(|node| self.has(node, self.renewed));
        self.untold != 0 || now < self.shown_until || !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Written;
    use super::super::super::{
        Execute, Local, Options, Placement, Road, Terms, Ticket, Unanswered, View,
    };
    use super::*;
    use crate::store::{Store, StoreOptions};
    use std::sync::Arc;

    /// Where a command was to go to another node, and waited until it was known which, that may be
    /// this one in the end.
    #[test]
    fn what_waits_for_copies_when_a_lease_is_over_is_answered_though_it_was_to_be_forwarded() {
        let store = Store::new(StoreOptions {
            memory: 1 << 20,
            ..StoreOptions::default()
        });
        let mut store = Store::worker(&Arc::new(store.unwrap())).unwrap();
        let mut pinned = store.pin();
        let mut local = Local::new(&mut pinned, 1);
        let view = Arc::new(View::new(Placement::whole(), 0));
        let options = Options {
            acked: true,
            lease: Some(Duration::from_secs(3)),
            ..Options::default()
        };
        let (terms, roster, now) = (Terms::new("node", []), Roster::round(1, 1), Time::ZERO);
        let mut node = Node::new(terms, 1, options, view, roster, now);
        let lease = |number| Lease {
            until: Time::from_nanos(3_000_000_000),
            number,
            revision: number,
        };
        let (mut out, mut written) = (Effects::default(), Written::default());
        written.key(b"key");
        let ticket = Ticket {
            worker: 0,
            number: 1,
        };
        node.forward(ticket, Road::to_server(0), b"set".to_vec(), now, &mut out);
        assert!(out.executes.is_empty(), "nobody serves it yet");
        node.renewed(lease(1), now, &mut out);
        let later = now + 2 * Options::default().dead_after;
        node.tick(&mut local, later, &mut out);
        let execute: Vec<Execute> = out.executes.drain(..).collect();
        assert_eq!(execute.len(), 1);
        node.executed(&execute[0], b"STORED".to_vec(), &written, &local, &mut out);
        assert_eq!(out.answers, []);
        node.renewed(lease(2), now, &mut out);
        assert_eq!(out.answers, [(ticket, Err(Unanswered::Unknown))]);
    }

    /// Somebody removed its key from etcd, and its lease is there.
    #[test]
    fn who_is_in_the_roster_no_more_has_no_lease_until_it_has_another() {
        let view = Arc::new(View::new(Placement::whole(), 0));
        let options = Options {
            lease: Some(Duration::from_secs(3)),
            ..Options::default()
        };
        let terms = Terms::new("node", []);
        let (with, without) = (Roster::round(1, 1), Roster::ranked(std::iter::empty(), 1));
        let mut node = Node::new(terms, 1, options, view, with.clone(), Time::ZERO);
        let mut out = Effects::default();
        let lease = |number| Lease {
            until: Time::from_nanos(3_000_000_000),
            number,
            revision: number,
        };
        node.renewed(lease(1), Time::ZERO, &mut out);
        assert_eq!(node.may_write_until(), lease(1).until);
        node.enroll(without.clone(), Time::ZERO, &mut out);
        assert_eq!(node.may_write_until(), Time::ZERO);
        // It was renewed before; and what is there again does not count before the lease is
        // another.
        node.renewed(lease(1), Time::ZERO, &mut out);
        node.enroll(with.clone(), Time::ZERO, &mut out);
        assert_eq!(node.may_write_until(), Time::ZERO);
        node.enroll(without, Time::ZERO, &mut out);
        node.renewed(lease(2), Time::ZERO, &mut out);
        assert_eq!(node.may_write_until(), Time::ZERO);
        node.enroll(with, Time::ZERO, &mut out);
        assert_eq!(node.may_write_until(), lease(2).until);
    }

    /// A claim of an epoch that is no greater than that of one who is gone would not count.
    #[test]
    fn epochs_grow_with_etcds_revision_however_great_it_is() {
        let view = Arc::new(View::new(Placement::whole(), 0));
        let (terms, roster, now) = (Terms::new("node", []), Roster::round(1, 1), Time::ZERO);
        let options = Options {
            lease: Some(Duration::from_secs(3)),
            ..Options::default()
        };
        let mut node = Node::new(terms, 1, options, view, roster, now);
        let mut last = node.next_epoch(0);
        for revision in [1, (1 << 30) - 1, 1 << 30, 1 << 40, i64::MAX / 4] {
            let lease = Lease {
                until: now + Duration::from_secs(1),
                number: 1,
                revision,
            };
            node.renewed(lease, now, &mut Effects::default());
            let next = node.next_epoch(0);
            assert!(next > last, "{revision}: {next} after {last}");
            last = next;
        }
    }
}
