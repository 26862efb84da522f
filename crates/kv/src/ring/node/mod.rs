//! A node of the ring: what it knows of the others, and what it does.
//!
//! 1. Every node sends every other a frame now and then. One that is silent for too long is dead;
//!    its ranges are taken by the next round the ring that has them complete (`ranges.rs`).
//! 2. What the workers wrote of a range that this node serves goes to the range's *targets*: the
//!    next nodes round the ring, until enough of them have the range complete. Under `acked` the
//!    workers are told when they have it.
//! 3. A node that becomes a target is sent the whole range, bit by bit, beside what is written
//!    meanwhile (`sync.rs`). When it has it complete, it counts; and if it comes before the one
//!    that serves the range, it is given it.
//! 4. A node that leaves gives away what it serves, and what it has copies of, before it ends
//!    (`leave.rs`).
//! 5. What a client flushes at one node all flush (`flush.rs`).
//! 6. Commands about a range that another node serves go to that one, and their answers come back
//!    (`forward.rs`).
//!
//! What holds: **a node that says that it has a range complete has all of it that was confirmed**,
//! for it may be the next to take it. So who serves a range confirms nothing that such a node may
//! not have:
//!
//! - The targets have what is written before it is confirmed, those that are still sent the range
//!   among them. Who was there when a claim began, and is a target from then on, need not be told
//!   anything else: what it has complete it has under the new claim, too.
//! - Any other that is there is told that what it has is old (`Leave`), when the claim begins, when
//!   it is a target no longer, and when it is there again after it was lost. Until it knows that,
//!   nothing more is confirmed, nor what was under way to it when it was lost.
//! - One that is not there cannot be told. In a ring of a file it is dead. With leases it gives up
//!   by itself what it has of a node that does not hear it (`lease.rs`), and whoever begins to
//!   serve waits for as long.
//! - A node is sent nothing before it knows the others, and a claim that is disputed confirms
//!   nothing: what it has not confirmed by then is lost, and those who wait are told so.
//!
//! - In a ring of a file one that is not there may stand still, come back, and say that it has what
//!   it had, when who served it is dead himself. So who serves a range renews his claim before he
//!   confirms anything without such a node (`renew_without`, and `begin_without` when he begins to
//!   serve), and what it has complete counts less than what those have that know of it, as they
//!   are sent what is confirmed. And a node takes nothing before those that are there know this
//!   life of it (`knows_others`): they may take what the one before served.
//!
//! And the range is taken, where who served it is dead, by the first that says that it has it, one
//! whose copy counts under the last epoch before all others; where nobody does, by the first that
//! is there, without what it may have had of it before it was told to drop that. With leases, only
//! by one that has just heard all others; and nobody serves anything before all others know of it,
//! so that who is not in a roster, and claims a range, was let go. Where nobody there has it, it is
//! taken by who had it under the last claim, or else the first, and not while one may have it who
//! was let go and is alive (`outside.rs`).
//!
//! Memory is bounded: what neighbors have not taken, by `queue_max` each, from which on the view
//! says that writes which they are to have are to wait, and half as much of ranges that they are
//! sent whole; one that takes nothing at all for too long is taken for dead. As much may wait of
//! commands that go elsewhere before the view says that those of ranges that are not served now are
//! to, and twice as much before it says so of all. What workers wrote, and the node has not taken,
//! the view counts by itself.

mod came;
mod chain;
mod chains;
mod confirm;
mod effects;
mod flush;
mod flushes;
mod forward;
mod forwards;
mod frames;
mod lease;
mod leave;
mod options;
mod outside;
mod peer;
mod presence;
mod progress;
mod queue;
mod ranges;
mod reached;
mod reads;
mod refused;
mod status;
mod sync;
mod tenure;

use super::local::Local;
use super::roster::Roster;
use super::terms::Terms;
use super::view::View;
use super::wire::{self, Claim, Message, Messages, Stay};
use chains::Chain;
pub use effects::{Effects, Execute, Unanswered};
use flushes::Flushes;
use forwards::Forwards;
pub use options::Options;
use peer::Peer;
pub use peer::SESSIONS;
pub(super) use peer::life;
use progress::{Handing, Incoming, OwnLease, Pass, Pause, Refused, Sync, Waiter};
use queue::Queue;
use reached::Reached;
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often something is done where there is something to do bit by bit.
const STEP: Duration = Duration::from_millis(1);

/// See the head of this file.
#[derive(Debug)]
pub struct Node {
    me: usize,
    /// What it was told, and which others were told otherwise: their numbers, and of what digest.
    terms: Terms,
    refused: BTreeMap<(usize, u64), Refused>,
    options: Options,
    view: Arc<View>,
    started: Time,
    /// When its time last came.
    ticked_at: Time,
    /// When this node last looked, and since when it does so without a long pause.
    looked_at: Time,
    looks_since: Time,
    /// Whether it ever knew the others, or looked for them for long enough.
    has_settled: bool,
    roster: Roster,
    /// The nodes that leave, a bit each, maybe this one among them.
    leaving: u64,
    /// When this one began to, and whether it ends.
    left_at: Time,
    is_gone: bool,
    reached: Reached,
    lease: OwnLease,
    peers: Vec<Peer>,
    /// What is known of each range.
    claims: Vec<Claim>,
    /// The ranges that this node has complete.
    complete: u64,
    /// Of each range, the last epoch of which this node knows that it is sent what is confirmed
    /// under it; 0: none. With leases, of one that it has complete no more, the epoch of the claim
    /// under which it had it.
    counts: Vec<u64>,
    /// Of those it has complete, ranges that others serve, and that may be read here while these
    /// are heard.
    reads: u64,
    /// The last second in which something of a range was put or written here; 0: nothing was.
    touched: Vec<u32>,
    /// Ranges, a bit each, that workers here may write, or wrote since that was last noted there.
    wrote: u64,
    /// Of ranges that this node was left out of: what was put or written here before this second is
    /// old, and goes; 0: nothing is there.
    stale: Vec<u32>,
    /// The second that the store's clock last showed.
    second: u32,
    /// Of ranges that this node serves: who gets them, and how far each is.
    targets: Vec<u64>,
    syncs: Vec<Vec<Sync>>,
    handing: Vec<Option<Handing>>,
    pauses: Vec<Pause>,
    /// Of ranges that it gets.
    incoming: Vec<Option<Incoming>>,
    pass: Pass,
    /// Bytes of ranges that were sent whole.
    caught_up: u64,
    fences: u64,
    /// How often a node was told that it is sent a range.
    begins: u32,
    batch: u64,
    /// The batch with which others know of the last claim that was renewed.
    renewed: u64,
    /// Of each range, where there are chains.
    chains: Vec<Chain>,
    waiting: Queue,
    /// Of each worker, the number of the last ticket that came.
    taken: Vec<u64>,
    /// Bytes of the answers among these.
    answers_held: usize,
    /// Ranges that another serves, who was not given them: what was written of them is lost.
    disputed: u64,
    /// Nodes that are to be told what they have before anything is confirmed, or to be silent
    /// until then.
    untold: u64,
    untold_until: Time,
    /// Until when one whose lease is over may show what he served, and this node serves.
    shown_until: Time,
    /// The ranges that wait for one who is not in the roster, a bit each; and of whom it was last
    /// said that what nobody serves waits for them.
    awaited: u64,
    told_awaited: u64,
    forwards: Forwards,
    flushes: Flushes,
}

impl Node {
    /// A node that just began, in this session: a multiple of [`SESSIONS`], another one than those
    /// of its earlier lives, and best a greater one.
    /// It speaks to those that were told the same as it.
    pub fn new(
        terms: Terms,
        session: u64,
        options: Options,
        view: Arc<View>,
        roster: Roster,
        now: Time,
    ) -> Node {
        let (nodes, ranges) = (roster.places(), view.placement().ranges());
        let chains = (0..ranges).map(|_| Chain::default());
        let workers = view.wrote().count();
        let me = view.me();
        let lease = OwnLease::none(roster.members() & 1 << me != 0);
        Node {
            me,
            terms,
            refused: BTreeMap::new(),
            options,
            view,
            started: now,
            ticked_at: now,
            looked_at: now,
            looks_since: now,
            has_settled: false,
            roster,
            leaving: 0,
            left_at: now,
            is_gone: false,
            reached: Reached::default(),
            lease,
            peers: (0..nodes)
                .map(|_| Peer::new(session, ranges, now))
                .collect(),
            claims: vec![Claim::default(); ranges],
            complete: 0,
            counts: vec![0; ranges],
            reads: 0,
            touched: vec![0; ranges],
            wrote: 0,
            stale: vec![0; ranges],
            second: 0,
            targets: vec![0; ranges],
            syncs: vec![vec![Sync::None; nodes]; ranges],
            handing: vec![None; ranges],
            pauses: vec![Pause::default(); ranges],
            incoming: vec![None; ranges],
            pass: Pass::default(),
            caught_up: 0,
            fences: 0,
            begins: 0,
            batch: 1,
            renewed: 0,
            chains: chains.collect(),
            waiting: Queue::default(),
            taken: vec![0; workers],
            answers_held: 0,
            disputed: 0,
            untold: 0,
            untold_until: now,
            shown_until: now,
            awaited: 0,
            told_awaited: 0,
            forwards: Forwards::default(),
            flushes: Flushes::new(nodes, session),
        }
    }

    /// The nodes that are there, a bit each, this one among them.
    pub fn alive(&self) -> u64 {
        let others = self.others().filter(|node| self.is_alive(*node));
        others.fold(1 << self.me, |set, node| set | 1 << node)
    }

    /// Who claims a range, as far as is known.
    pub fn claim(&self, range: usize) -> Claim {
        self.claims[range]
    }

    /// The ranges that this node has complete, a bit each.
    pub fn complete(&self) -> u64 {
        self.complete
    }

    /// Who gets a range from this node, a bit each; 0 where another serves it.
    pub fn targets(&self, range: usize) -> u64 {
        self.targets[range]
    }

    fn is_alive(&self, node: usize) -> bool {
        node == self.me || self.peers[node].session != 0
    }

    /// A frame came. `local` is this node's store.
    pub fn frame(&mut self, bytes: &[u8], local: &mut Local<'_, '_>, now: Time, out: &mut Effects) {
        let Ok((head, messages)) = wire::read(bytes) else {
            return;
        };
        self.second = local.now();
        self.look(now);
        let from = usize::from(head.from);
        if head.ring != self.terms.digest() {
            // Messages are for another, who was there before this one.
            let greeting = if head.seq == 0 { messages } else { &[] };
            if self.refuse(from, head.ring, greeting, head.complete != 0, now) {
                out.refusal = self.refusal(from);
            }
            return;
        }
        let is_known = head.claims.len() == self.ranges() && from < self.peers.len();
        if !is_known || from == self.me {
            return;
        }
        if !self.is_member(from) {
            return self.overhear(from, &head, now);
        }
        if !self.meet(from, &head, now, out) {
            return;
        }
        self.see_whether_heard(from, &head, now, out);
        let peer = &mut self.peers[from];
        peer.heard = now;
        if head.count > peer.count {
            (peer.count, peer.complete) = (head.count, head.complete);
            peer.counts.clone_from(&head.counts);
            peer.awaited = head.awaited;
            let epochs = head.claims.iter().map(|claim| claim.epoch);
            (peer.epochs.iter_mut().zip(epochs)).for_each(|(old, new)| *old = new);
            if head.stay != Stay::Stays {
                self.leaving |= 1 << from;
            }
        }
        for (range, claim) in head.claims.iter().enumerate() {
            self.learn(range, *claim);
            self.follows_another(from, range, *claim);
        }
        let peer = &mut self.peers[from];
        // What it says before it knows of this session is about an earlier one.
        if head.peer == peer.mine {
            self.met(from);
            self.heard_by(from, head.heard);
            let peer = &mut self.peers[from];
            (peer.link).acknowledged(head.ack, head.credit, head.gap, now);
            if std::mem::replace(&mut peer.took_parts, head.parts) != head.parts {
                peer.link.takes(self.options.again_after, now);
            }
            if head.seq > 0 && peer.link.accept(head.seq) {
                let losses = self.peers[from].losses;
                for message in Messages::new(messages) {
                    self.message(from, message, local, out);
                    // What follows is of a session that is over.
                    if self.peers[from].losses != losses {
                        break;
                    }
                }
            }
        }
        self.drop_flushed(local);
        if head.stay == Stay::Gone && self.peers[from].count == head.count {
            tracing::info!(node = self.view.name(from), "a node left the ring");
            // What it did not get is executed elsewhere.
            let is_about_us = head.peer == self.peers[from].mine;
            let had = if is_about_us { head.ack } else { 0 };
            self.forwards.retract(from, had);
            self.peers[from].mine += 1;
            self.lose(from, now, out);
            self.peers[from].has_ended = true;
            // What comes of it yet is late.
            self.peers[from].last_session = head.session + 1;
        }
        self.decide(now, out);
        self.chain_all(now, local);
    }

    /// What this node was told.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    fn message(
        &mut self,
        from: usize,
        message: Message<'_>,
        local: &mut Local<'_, '_>,
        out: &mut Effects,
    ) {
        match message {
            Message::Put(of, copy) => {
                if self.follows(from, of) {
                    self.flushes.came(from, copy.key);
                    let touched = &mut self.touched[usize::from(of.range)];
                    *touched = local.now().max(*touched);
                    local.put(copy);
                }
            }
            Message::Drop(of, key) => {
                if self.follows(from, of) {
                    local.remove(key, |_| true);
                }
            }
            Message::Flush(flush) => self.flushed(from, flush, local, out),
            Message::Heard(flush) => self.flush_heard(from, flush, local),
            Message::Begin(of, number) => self.begin(from, of, number, local.now()),
            Message::Ready(of, number) => self.ready(from, of, number),
            Message::End(of) => self.end(from, of),
            Message::Complete(of) => self.completed(from, of),
            Message::Leave(of) => self.left_out(from, of, local.now()),
            Message::Serve(of, complete) => self.serve(from, of, complete),
            Message::Forward(of, number, command) => {
                self.forwarded(from, (of, false), number, command, out);
            }
            Message::Read(of, number, command) => {
                self.forwarded(from, (of, true), number, command, out);
            }
            Message::Pass(pass) => self.passing(from, pass, local),
            Message::Passed(of, batch) => self.passed(from, of, batch),
            Message::Tail(of, view, tail) => self.told_tail(from, of, view, tail.map(usize::from)),
            Message::Answer(number, answer) => self.forwards.answered(number, answer, out),
            Message::Refused(number) => self.forwards.refused(number),
            Message::Unknown(number) => self.forwards.unknown(number, out),
            Message::Reads(of) => self.may_read(from, of),
            Message::Counts(of) => self.count_on(from, of),
            Message::Looks(of, at) => self.looks_through(from, of, at),
        }
    }

    /// The time has come: see [`wake_at`](Self::wake_at).
    pub fn tick(&mut self, local: &mut Local<'_, '_>, now: Time, out: &mut Effects) {
        self.second = local.now();
        (self.ticked_at, self.forwards.executed) = (now, 0);
        self.look(now);
        for node in self.others() {
            if let Some(why) = self.why_dead(node, now) {
                let name = self.view.name(node);
                tracing::warn!(node = name, why, "a node of the ring is taken for dead");
                let is_heard = now.since(self.peers[node].heard) < self.options.dead_after;
                if is_heard {
                    self.bar(node, now);
                    self.peers[node].is_deaf = true;
                }
                // A new session: who was only slow begins anew, too.
                self.peers[node].mine += 1;
                self.lose(node, now, out);
                if is_heard {
                    self.await_told(1 << node, now);
                }
            }
        }
        self.has_settled |= self.knows_others(now);
        self.flush_if_due(local);
        self.proceed(local, now);
        self.step(local, now);
        self.tell_looks(now);
        self.note_reached();
        self.forget_silent(now);
        self.look_outside(now);
        self.decide(now, out);
        self.chain_all(now, local);
        self.go_on(now, out);
    }

    /// There is a way to a node that was not there before: what was sent to it until now may be
    /// lost. It is sent again at once, and so is a sign of life. Not to one that is refused: over
    /// Ethernet, where neither understands the other, each would have the other begin anew for it.
    pub fn connected(&mut self, node: usize, now: Time) {
        if self.refused.keys().any(|(of, _)| *of == node) {
            return;
        }
        if let Some(peer) = self.peers.get_mut(node) {
            peer.beat_at = now;
            peer.link.may_have_lost(now);
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        bits(self.roster.members() & !(1 << self.me))
    }

    fn ranges(&self) -> usize {
        self.claims.len()
    }

    fn is_member(&self, node: usize) -> bool {
        node < self.peers.len() && self.roster.members() & 1 << node != 0
    }

    /// When [`tick`](Self::tick) is to be called at the latest. It follows from when it was: what
    /// comes in between, however much it is, does not put it off.
    pub fn wake_at(&self) -> Time {
        let others = self.others().map(|node| {
            let peer = &self.peers[node];
            peer.beat_at.min(peer.link.wake_at())
        });
        let beat = others.min().unwrap_or(Time::NEVER);
        let is_busy = self.pass.is_under_way()
            || self.has_pass()
            || self.awaits_second()
            || self.forwards.has_held();
        let step = if is_busy {
            STEP
        } else {
            self.options.heartbeat
        };
        beat.min(self.ticked_at + step)
    }
}

/// The numbers of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> + Clone {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}
