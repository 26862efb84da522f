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
//! And the range is taken, where who served it is dead, by the first that says that it has it;
//! where nobody does, by the first that is there. With leases, only by one that has just heard all
//! others; and nobody serves anything before all others know of it, so that who is not in a
//! roster, and claims a range, was let go.
//!
//! Memory is bounded: what neighbors have not taken, by `queue_max` each, from which on the view
//! says that writes which they are to have are to wait; one that takes nothing at all for too long
//! is taken for dead. As much may wait of commands that go elsewhere before the view says that
//! those of ranges that are not served now are to, and twice as much before it says so of all.

mod chain;
mod chains;
mod effects;
mod flush;
mod flushes;
mod forward;
mod forwards;
mod lease;
mod leave;
mod options;
mod presence;
mod progress;
mod ranges;
mod reads;
mod status;
mod sync;

use super::link::Link;
use super::local::Local;
use super::roster::Roster;
use super::terms::Terms;
use super::view::View;
use super::wire::{self, Claim, Head, Message, Messages, Stay};
use super::written::Written;
use chains::Chain;
pub use effects::{Effects, Execute, Ticket, Unanswered};
use flushes::Flushes;
use forwards::Forwards;
pub use options::Options;
use progress::{Handing, Incoming, OwnLease, Pass, Refused, Sync, Waiter, Waiting};
use rhythm_net::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How often something is done where there is something to do bit by bit.
const STEP: Duration = Duration::from_millis(1);

/// Another node, as this one knows it.
#[derive(Debug)]
struct Peer {
    /// Its session; 0: it is not there, as far as is known.
    session: u64,
    /// Its last one: what comes of an earlier one is late.
    last_session: u64,
    /// Ours with it.
    mine: u64,
    /// How often what was under way with it was lost.
    losses: u64,
    heard: Time,
    /// How many frames it had sent when it said what is known of it.
    count: u64,
    /// How many it was sent.
    sent: u64,
    /// When it is sent the next, if nothing else is.
    beat_at: Time,
    complete: u64,
    /// The epoch of each range's claim that it knew of when it said so.
    epochs: Vec<u64>,
    link: Link,
    /// How often bytes of a frame of its came that was not whole yet, and how often it had some of
    /// ours, when it last said so.
    parts: u16,
    took_parts: u16,
    /// A frame that it was sent, its count and when, until it says that it heard that.
    probe: Option<(u64, Time)>,
    /// When the last was sent that it said so of; and the same, or when it was met, in whichever
    /// session.
    heard_me: Time,
    knew_me: Time,
    /// Frames that were sent again on links before this one.
    resent: u64,
    /// Bytes of frames that it was sent.
    sent_bytes: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Node {
    me: usize,
    /// What it was told, and which others were told otherwise.
    terms: Terms,
    refused: BTreeMap<usize, Refused>,
    options: Options,
    view: Arc<View>,
    started: Time,
    /// When its time last came.
    ticked_at: Time,
    /// When this node last looked, and since when it does so without a long pause.
    looked_at: Time,
    looks_since: Time,
    roster: Roster,
    /// The nodes that leave, a bit each, maybe this one among them.
    leaving: u64,
    /// When this one began to, and whether it ends.
    left_at: Time,
    is_gone: bool,
    lease: OwnLease,
    peers: Vec<Peer>,
    /// What is known of each range.
    claims: Vec<Claim>,
    /// The ranges that this node has complete.
    complete: u64,
    /// Of these, ranges that others serve, and that may be read here while these are heard.
    reads: u64,
    /// The last second in which something of a range was put or written here.
    touched: Vec<u32>,
    /// The second that the store's clock last showed.
    second: u32,
    /// Of ranges that this node serves: who gets them, and how far each is.
    targets: Vec<u64>,
    syncs: Vec<Vec<Sync>>,
    handing: Vec<Option<Handing>>,
    /// Of ranges that it gets.
    incoming: Vec<Option<Incoming>>,
    pass: Pass,
    /// Bytes of ranges that were sent whole.
    caught_up: u64,
    fences: u64,
    /// How often a node was told that it is sent a range.
    begins: u32,
    batch: u64,
    /// Of each range, where there are chains.
    chains: Vec<Chain>,
    waiting: VecDeque<Waiting>,
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
    forwards: Forwards,
    flushes: Flushes,
}

impl Node {
    /// A node that just began, in this session: a number greater than those of its earlier lives.
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
        let peer = || Peer {
            session: 0,
            last_session: 0,
            mine: session,
            losses: 0,
            heard: now,
            count: 0,
            sent: 0,
            beat_at: now,
            complete: 0,
            epochs: vec![0; ranges],
            link: Link::new(now),
            parts: 0,
            took_parts: 0,
            probe: None,
            heard_me: Time::ZERO,
            knew_me: now,
            resent: 0,
            sent_bytes: 0,
        };
        Node {
            me: view.me(),
            terms,
            refused: BTreeMap::new(),
            options,
            view,
            started: now,
            ticked_at: now,
            looked_at: now,
            looks_since: now,
            roster,
            leaving: 0,
            left_at: now,
            is_gone: false,
            lease: OwnLease::none(),
            peers: (0..nodes).map(|_| peer()).collect(),
            claims: vec![Claim::default(); ranges],
            complete: 0,
            reads: 0,
            touched: vec![0; ranges],
            second: 0,
            targets: vec![0; ranges],
            syncs: vec![vec![Sync::None; nodes]; ranges],
            handing: vec![None; ranges],
            incoming: vec![None; ranges],
            pass: Pass::default(),
            caught_up: 0,
            fences: 0,
            begins: 0,
            batch: 1,
            chains: chains.collect(),
            waiting: VecDeque::new(),
            answers_held: 0,
            disputed: 0,
            untold: 0,
            untold_until: now,
            shown_until: now,
            forwards: Forwards::default(),
            flushes: Flushes::new(session),
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
            return self.refuse(from, head.ring, greeting, now);
        }
        let is_ours = head.claims.len() == self.ranges() && self.is_member(from);
        if !is_ours || from == self.me {
            return;
        }
        if !self.meet(from, &head, now, out) {
            return;
        }
        let peer = &mut self.peers[from];
        peer.heard = now;
        if head.count > peer.count {
            (peer.count, peer.complete) = (head.count, head.complete);
            let epochs = head.claims.iter().map(|claim| claim.epoch);
            (peer.epochs.iter_mut().zip(epochs)).for_each(|(old, new)| *old = new);
            if head.stay != Stay::Stays {
                self.leaving |= 1 << from;
            }
        }
        for (range, claim) in head.claims.iter().enumerate() {
            self.learn(range, *claim);
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
                for message in Messages::new(messages) {
                    self.message(from, message, local, out);
                }
            }
        }
        if head.stay == Stay::Gone && self.peers[from].count == head.count {
            tracing::info!(node = self.view.name(from), "a node left the ring");
            // What it did not get is executed elsewhere.
            let is_about_us = head.peer == self.peers[from].mine;
            let had = if is_about_us { head.ack } else { 0 };
            self.forwards.retract(from, had);
            self.lose(from, now, out);
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
                    self.touched[usize::from(of.range)] = local.now();
                    local.put(copy);
                }
            }
            Message::Drop(of, key) => {
                if self.follows(from, of) {
                    local.remove(key, |_| true);
                }
            }
            Message::Flush(flush) => self.flushed(from, flush, local),
            Message::Begin(of, number) => self.begin(from, of, number, local.now()),
            Message::Ready(of, number) => self.ready(from, of, number),
            Message::End(of) => self.end(from, of),
            Message::Complete(of) => self.completed(from, of),
            Message::Leave(of) => self.left_out(from, of),
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
        }
    }

    /// The time has come: see [`wake_at`](Self::wake_at).
    pub fn tick(&mut self, local: &mut Local<'_, '_>, now: Time, out: &mut Effects) {
        self.second = local.now();
        self.ticked_at = now;
        self.look(now);
        for node in self.others() {
            if let Some(why) = self.why_dead(node, now) {
                let name = self.view.name(node);
                tracing::warn!(node = name, why, "a node of the ring is taken for dead");
                let is_heard = now.since(self.peers[node].heard) < self.options.dead_after;
                // A new session: who was only slow begins anew, too.
                self.peers[node].mine += 1;
                self.lose(node, now, out);
                if is_heard {
                    self.await_told(1 << node, now);
                }
            }
        }
        self.proceed(local, now);
        self.step(local, now);
        self.decide(now, out);
        self.chain_all(now, local);
        self.dispatch_all(now, out);
        self.take_on(out);
    }

    /// A worker wrote this in ranges that it may write. Under `acked` the ticket is released when
    /// the targets have it.
    pub fn written(&mut self, ticket: Ticket, written: &Written, local: &Local<'_, '_>) {
        let (batch, ranges) = self.replicate(written, local);
        if self.options.acked {
            self.await_copies(batch, ranges | written.shown(), Waiter::Worker(ticket));
        }
    }

    fn await_copies(&mut self, batch: u64, ranges: u64, waiter: Waiter) {
        self.waiting.push_back(Waiting {
            batch,
            ranges,
            waiter,
        });
    }

    /// Sends the targets what was written, as a batch: its number, and the ranges that it is of.
    fn replicate(&mut self, written: &Written, local: &Local<'_, '_>) -> (u64, u64) {
        let (mut reached, mut ranges) = (0_u64, 0_u64);
        if let Some(seconds) = written.flushed() {
            reached |= self.flush_all(seconds, local);
        }
        let mut passed: BTreeMap<usize, BTreeSet<&[u8]>> = BTreeMap::new();
        for key in written.keys() {
            let range = self.view.placement().range(key);
            ranges |= 1 << range;
            if !self.serves(range) {
                // Another does since.
                self.disputed |= 1 << range;
                continue;
            }
            if self.is_straight_now(range) {
                reached |= self.targets[range];
            }
            if self.options.scheme.is_chain() {
                passed.entry(range).or_default().insert(key);
                continue;
            }
            let of = self.of(range);
            for node in bits(self.targets[range]) {
                (self.peers[node].link).write(|out| local.tell(of, key, out));
            }
        }
        self.batch += 1;
        for (range, keys) in passed {
            self.pass_on(range, &keys, self.batch, local);
        }
        for node in bits(reached) {
            self.peers[node].link.mark(self.batch);
        }
        (self.batch, ranges)
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

    /// Whether a node has all of a batch that it is to have.
    fn has(&self, node: usize, batch: u64) -> bool {
        (self.peers[node].link.confirmed()).is_none_or(|confirmed| confirmed >= batch)
    }

    fn release(&mut self, now: Time, out: &mut Effects) {
        let disputed = std::mem::take(&mut self.disputed);
        if disputed != 0 {
            self.give_up(disputed, out);
        }
        if now >= self.may_write_until() || self.holds_back(now) {
            return;
        }
        self.forget_confirmed();
        let confirmed = self.confirmed();
        while self.waiting.front().is_some_and(|of| of.batch <= confirmed)
            && let Some(Waiting { waiter, .. }) = self.waiting.pop_front()
        {
            match waiter {
                Waiter::Worker(ticket) => out.released.push(ticket),
                Waiter::Answer(origin, answer) => {
                    self.answers_held -= answer.len();
                    self.answer(origin, answer, out);
                }
            }
        }
    }

    /// What waits of these ranges is not confirmed any more.
    fn give_up(&mut self, ranges: u64, out: &mut Effects) {
        for waiting in std::mem::take(&mut self.waiting) {
            match (waiting.ranges & ranges, waiting.waiter) {
                (0, waiter) => self.waiting.push_back(Waiting { waiter, ..waiting }),
                (_, Waiter::Worker(ticket)) => out.broken.push(ticket),
                (_, Waiter::Answer(origin, answer)) => {
                    self.answers_held -= answer.len();
                    self.lose_answer(origin, out);
                }
            }
        }
    }

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
                peer: peer.session,
                count: peer.sent,
                seq: 0,
                ack: peer.link.received(),
                heard: peer.count,
                credit: self.options.window,
                gap: peer.link.take_gap(),
                parts: peer.parts,
                stay,
                complete: self.complete,
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
            self.claims = head.claims;
        }
        self.view.set_full(self.full());
        self.view.set_crowded(self.crowded());
    }

    /// The ranges whose writes are to wait, a bit each: of those that are to have a copy one does
    /// not take what it is sent.
    fn full(&self) -> u64 {
        let most = self.options.queue_max;
        if self.chained_bytes() > most {
            return u64::MAX;
        }
        let slow = (self.others()).filter(|node| self.peers[*node].link.held() > most);
        let slow = slow.fold(0, |set, node| set | 1_u64 << node);
        if slow == 0 {
            return 0;
        }
        let waits = (0..self.ranges()).filter(|range| self.targets[*range] & slow != 0);
        waits.fold(0, |ranges, range| ranges | 1 << range)
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
