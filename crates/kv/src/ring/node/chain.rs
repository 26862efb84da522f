//! Chains ([`Scheme::Chain`]): writes of a range go from one node to the next, and the last of them
//! is read.
//!
//! ```text
//!   client -- write --> head --- Pass --> next --- Pass --> tail <-- read -- client
//!                         ^                                  |
//!                         +------------- Passed -------------+
//! ```
//!
//! The head is who serves the range. It says which nodes a write passes, in the order in which they
//! would take the range over, and the tail tells it what has come. So what the tail shows, all in
//! front of it have, and what is confirmed the tail shows. Every write bears a number, the *view*,
//! which grows when the chain changes, and its place in that view; what is of an earlier view is
//! dropped, and what comes when one before it was lost on the way.
//!
//! A chain is there as long as all targets have the range complete, and none is given it. Else,
//! and when nothing comes of it for too long, writes go to all targets straight, as in a ring,
//! nobody reads copies, and the head answers reads when all that was written before is confirmed.
//! When that changes, the head sends again what is not confirmed, in the new view. The tail may
//! read when that has come through the chain; the chain ends with its knowing that it may not, or,
//! if it is not heard, when it has to take that for so (`reads.rs`).
//!
//! Who takes over has all that anybody was shown. It may have more, which those behind it have not:
//! nodes remember what is not known to be confirmed, and who takes over sends that first.
//!
//! [`Scheme::Chain`]: super::super::Scheme::Chain

use super::super::local::Local;
use super::super::wire::{Claim, Message, Messages, Of, Pass};
use super::chains::{Chain, Open};
use super::{Node, Sync, bits};
use rhythm_net::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// A chain that nothing came of is tried again no sooner than this; where nothing ever came of it,
/// after twice as long each time, up to the latter.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// So many times what makes writes wait at their head may wait for a node at the one before it:
/// more than a few heads send together.
const RELAYED: usize = 4;
/// Bytes of writes from which on those that follow are passed on by themselves.
const TOGETHER: usize = 64 << 10;

impl Node {
    /// Who may read a range, if it is known.
    pub(super) fn tail(&self, range: usize) -> Option<usize> {
        self.chains[range].tail
    }

    /// Whether this node may read a range that another serves.
    pub(super) fn reads_now(&self, range: usize) -> bool {
        self.reads & 1 << range != 0 && self.view.may_read_copy(range, self.looked_at)
    }

    /// A range has another claim.
    pub(super) fn leave_chain(&mut self, range: usize) {
        let before = std::mem::take(&mut self.chains[range]).into_keys();
        if self.complete & 1 << range == 0 {
            return;
        }
        let chain = &mut self.chains[range];
        if usize::from(self.claims[range].node) != self.me {
            chain.before = before;
        } else if !before.is_empty() {
            self.batch += 1;
            for key in before {
                chain.push(Open {
                    batch: self.batch,
                    straight: None,
                    key,
                    bytes: 0,
                });
            }
            chain.is_new = true;
        }
    }

    /// A node is gone, and what it was told.
    pub(super) fn forget_told(&mut self, node: usize) {
        for chain in &mut self.chains {
            chain.told &= !(1 << node);
        }
    }

    /// Sends what a batch wrote of a range that this node serves, and remembers it.
    pub(super) fn pass_on(
        &mut self,
        range: usize,
        keys: &BTreeSet<&[u8]>,
        batch: u64,
        local: &Local<'_, '_>,
    ) {
        let is_chained = !self.chains[range].nodes.is_empty();
        if self.chains[range].open().is_empty() {
            self.chains[range].moved_at = self.looked_at;
        }
        let of = self.of(range);
        let mut write = Vec::new();
        let mut keys = keys.iter().peekable();
        while let Some(key) = keys.next() {
            let before = write.len();
            local.tell(of, key, &mut write);
            self.chains[range].push(Open {
                batch,
                straight: (!is_chained).then_some(batch),
                key: key.to_vec(),
                bytes: write.len() - before,
            });
            if write.len() >= TOGETHER || keys.peek().is_none() {
                self.pass(range, batch, keys.peek().is_none(), &write);
                write.clear();
            }
        }
    }

    /// Sends writes, the last of a batch or not, down the chain or to all targets.
    fn pass(&mut self, range: usize, batch: u64, is_last: bool, write: &[u8]) {
        let (of, alive) = (self.of(range), self.alive());
        let chain = &mut self.chains[range];
        let is_chained = !chain.nodes.is_empty();
        chain.passes += u64::from(is_chained);
        let place = if is_chained { chain.passes } else { 0 };
        // This batch is not, whatever links have.
        let done = chain.open().front().map_or(0, |open| open.batch - 1);
        let pass = |rest| Pass {
            of,
            head: self.me as u8,
            view: chain.view,
            place,
            batch,
            done,
            is_last,
            rest,
            write,
        };
        match chain.nodes.split_first() {
            // Where it is there no more, all is sent again when the chain ends.
            Some((next, _)) if alive & 1 << next == 0 => {}
            Some((next, rest)) => {
                let link = &mut self.peers[usize::from(*next)].link;
                link.write(|out| Message::Pass(pass(rest)).write(out));
            }
            None => {
                for node in bits(self.targets[range] & alive) {
                    let link = &mut self.peers[node].link;
                    let pass = Pass {
                        is_last: false,
                        ..pass(&[])
                    };
                    link.write(|out| Message::Pass(pass).write(out));
                }
            }
        }
    }

    /// Writes come of a range that this node has a copy of.
    pub(super) fn passing(&mut self, from: usize, pass: Pass<'_>, local: &mut Local<'_, '_>) {
        let Pass { of, head, .. } = pass;
        let range = usize::from(of.range);
        if range >= self.ranges() || usize::from(head) == self.me {
            return;
        }
        let claim = Claim {
            epoch: of.epoch,
            node: head,
        };
        if usize::from(head) == from {
            self.learn(range, claim);
        }
        let is_of_head = self.claims[range].node == head && self.is_of(of);
        if !is_of_head || pass.view < self.chains[range].view {
            return;
        }
        let chain = &mut self.chains[range];
        chain.enter(pass.view);
        if pass.place != 0 {
            // What is missing was lost with a link on the way: the tail is not to say that it came.
            if pass.place != chain.passes + 1 {
                return;
            }
            chain.passes = pass.place;
        }
        self.touched[range] = local.now().max(self.touched[range]);
        chain.forget_until(pass.done);
        let flushes = &mut self.flushes;
        for message in Messages::new(pass.write) {
            let key = match message {
                Message::Put(_, copy) => {
                    flushes.came(head.into(), copy.key);
                    local.put(copy);
                    copy.key
                }
                Message::Drop(_, key) => {
                    local.remove(key, |_| true);
                    key
                }
                _ => continue,
            };
            chain.push(Open {
                batch: pass.batch,
                straight: None,
                key: key.to_vec(),
                bytes: 0,
            });
        }
        if let Some((next, rest)) = pass.rest.split_first() {
            let next = usize::from(*next);
            // Where it is not there, or takes far too little, the head will see that nothing comes
            // of the chain any more, and send what follows itself.
            let takes = |node: usize| {
                let most = RELAYED.saturating_mul(self.options.queue_max);
                self.is_alive(node) && self.peers[node].link.held() <= most
            };
            if next != self.me && self.is_member(next) && takes(next) {
                let message = Message::Pass(Pass { rest, ..pass });
                self.peers[next].link.write(|out| message.write(out));
            }
        } else if pass.is_last && self.is_alive(head.into()) {
            let message = Message::Passed(of, pass.batch);
            (self.peers[usize::from(head)].link).write(|out| message.write(out));
        }
    }

    /// The tail says that a batch has passed. That is so in whichever view it did: who is between
    /// now, and was not then, was sent all that was written by then, and a chain that began since
    /// did so with a later batch.
    pub(super) fn passed(&mut self, from: usize, of: Of, batch: u64) {
        let range = usize::from(of.range);
        if range >= self.ranges() || !self.is_of(of) || !self.serves(range) {
            return;
        }
        let chain = &mut self.chains[range];
        let tail = chain.nodes.last().copied().map(usize::from);
        if tail != Some(from) {
            return;
        }
        chain.moved_at = self.looked_at;
        chain.forget_until(batch);
        if chain.tail.is_none() && batch >= chain.begun {
            (chain.tail, chain.told) = (tail, 0);
            self.tell_tail(range);
        }
    }

    /// The head says who reads.
    pub(super) fn told_tail(&mut self, from: usize, of: Of, view: u32, tail: Option<usize>) {
        let range = usize::from(of.range);
        // It may be one that is not known to be a member yet, this node too: whether it is there is
        // asked when something is to be read, and it is not said again.
        let tail = tail.filter(|tail| *tail < self.peers.len());
        // It is of no earlier view than the writes that came: who is passed these had heard that
        // nobody reads before their chain began.
        if !self.follows(from, of) {
            return;
        }
        let chain = &mut self.chains[range];
        chain.enter(view);
        chain.tail = tail;
        if tail.is_some() {
            chain.before.clear();
        }
        match tail == Some(self.me) {
            true => self.may_read(from, of),
            false => self.stop_reading(range),
        }
    }

    /// Tells all who do not know who reads.
    fn tell_tail(&mut self, range: usize) {
        let (of, chain) = (self.of(range), &self.chains[range]);
        let message = Message::Tail(of, chain.view, chain.tail.map(|tail| tail as u8));
        for node in self.others() {
            if self.is_alive(node) && self.chains[range].told & 1 << node == 0 {
                (self.peers[node].link).write(|out| message.write(out));
                self.chains[range].told |= 1 << node;
            }
        }
    }

    /// All writes go to all targets: what is on its way from one node to the next is dropped.
    pub(super) fn unchain_all(&mut self, local: &Local<'_, '_>) {
        (0..self.ranges()).for_each(|range| self.unchain(range, local));
    }

    /// Begins and ends the chains of ranges that this node serves.
    pub(super) fn chain_all(&mut self, now: Time, local: &Local<'_, '_>) {
        if self.options.scheme.is_chain() {
            for range in 0..self.ranges() {
                if self.serves(range) {
                    self.chain_up(range, now, local);
                }
            }
        }
    }

    /// Begins or ends the chain of a range that this node serves, as that is now.
    fn chain_up(&mut self, range: usize, now: Time, local: &Local<'_, '_>) {
        let is_stuck = {
            let chain = &self.chains[range];
            !chain.nodes.is_empty()
                && !chain.open().is_empty()
                && now.since(chain.moved_at.max(self.looks_since)) >= self.options.dead_after
        };
        let is_fit = self.is_fit(range) && self.is_known(range, now);
        let is_chained = !self.chains[range].nodes.is_empty();
        if is_chained && (is_stuck || !is_fit) {
            if is_stuck {
                let chain = &mut self.chains[range];
                chain.pause = match chain.tail {
                    None if chain.tried == chain.nodes => (2 * chain.pause).min(AGAIN_MAX),
                    _ => AGAIN,
                };
                chain.again_at = now + chain.pause;
                chain.tried = chain.nodes.clone();
            }
            self.unchain(range, local);
        } else if self.chains[range].is_new {
            self.send_open(range, local);
        }
        let nodes: Vec<u8> = self.in_order(range).map(|node| node as u8).collect();
        let chain = &self.chains[range];
        let pauses = now < chain.again_at && chain.tried == nodes;
        if is_chained || !is_fit || pauses {
            return self.tell_tail(range);
        }
        self.batch += 1;
        let batch = self.batch;
        let chain = &mut self.chains[range];
        (chain.nodes, chain.begun, chain.moved_at) = (nodes, batch, now);
        chain.enter(chain.view + 1);
        // It is confirmed when it has passed, whatever there is to send.
        chain.push(Open {
            batch,
            straight: None,
            key: Vec::new(),
            bytes: 0,
        });
        self.send_open(range, local);
    }

    /// Whether all others know who serves a range, that they may not read it, and that what they
    /// have of it is old, if it is, and were told of all flushes that this node heard of: what the
    /// tail shows nobody confirms once more, and nobody drops.
    fn is_known(&mut self, range: usize, now: Time) -> bool {
        let epoch = self.claims[range].epoch;
        let settled = self.chains[range].settled.max(self.flushes.batch());
        !self.holds_back(now)
            && (self.others())
                .filter(|node| self.is_alive(*node))
                .all(|node| self.peers[node].epochs[range] >= epoch && self.has(node, settled))
    }

    /// The targets, in the order in which they would take the range over.
    fn in_order(&self, range: usize) -> impl Iterator<Item = usize> + Clone {
        let targets = self.targets[range];
        self.around(range)
            .filter(move |node| targets & 1 << node != 0)
    }

    /// Whether the range can have a chain, and, if it has one, that it is that.
    fn is_fit(&self, range: usize) -> bool {
        let nodes = &self.chains[range].nodes;
        let is_it = nodes.is_empty()
            || self
                .in_order(range)
                .eq(nodes.iter().map(|node| usize::from(*node)));
        let are_done = bits(self.targets[range])
            .all(|node| self.is_alive(node) && self.syncs[range][node] == Sync::Done);
        is_it && are_done && self.targets[range] != 0 && self.handing[range].is_none()
    }

    /// From now on writes go to all targets.
    fn unchain(&mut self, range: usize, local: &Local<'_, '_>) {
        let chain = &mut self.chains[range];
        if chain.nodes.is_empty() {
            return;
        }
        chain.nodes.clear();
        chain.enter(chain.view + 1);
        (chain.tail, chain.told) = (None, 0);
        // Who reads no more is to know that before the next does.
        self.tell_tail(range);
        self.batch += 1;
        self.chains[range].settled = self.batch;
        for node in bits(self.alive() & !(1 << self.me)) {
            self.peers[node].link.mark(self.batch);
        }
        self.send_open(range, local);
    }

    /// Sends what is not confirmed, as it is now.
    fn send_open(&mut self, range: usize, local: &Local<'_, '_>) {
        self.chains[range].is_new = false;
        if self.chains[range].open().is_empty() {
            return;
        }
        let is_chained = !self.chains[range].nodes.is_empty();
        self.batch += 1;
        let straight = (!is_chained).then_some(self.batch);
        let of = self.of(range);
        let (mut keys, mut writes, mut write) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut last = self.batch;
        for open in self.chains[range].open_mut() {
            open.straight = straight;
            last = open.batch;
            if !open.key.is_empty() && keys.insert(&open.key) {
                local.tell(of, &open.key, &mut write);
                if write.len() >= TOGETHER {
                    writes.push(std::mem::take(&mut write));
                }
            }
        }
        writes.push(write);
        let count = writes.len();
        for (index, write) in writes.iter().enumerate() {
            self.pass(range, last, index + 1 == count, write);
        }
        if !is_chained {
            for node in bits(self.targets[range] & self.alive()) {
                self.peers[node].link.mark(self.batch);
            }
        }
    }

    /// The last batch that all have who are there.
    fn confirmed_by_links(&self) -> u64 {
        let others = bits(self.alive() & !(1 << self.me));
        let links = others.filter_map(|node| self.peers[node].link.confirmed());
        links.min().unwrap_or(u64::MAX)
    }

    /// The last batch of which all is confirmed.
    pub(super) fn confirmed(&self) -> u64 {
        let links = self.confirmed_by_links();
        let open = (0..self.chains.len()).filter(|range| self.serves(*range));
        let open = open.filter_map(|range| {
            let mut open = self.chains[range].open().iter();
            let first = open.find(|open| open.straight.is_none_or(|batch| batch > links))?;
            Some(first.batch - 1)
        });
        links.min(open.min().unwrap_or(u64::MAX))
    }

    /// Forgets what is confirmed.
    pub(super) fn forget_confirmed(&mut self) {
        let links = self.confirmed_by_links();
        for range in 0..self.chains.len() {
            if self.serves(range) {
                let chain = &mut self.chains[range];
                while let Some(first) = chain.open().front()
                    && first.straight.is_some_and(|batch| batch <= links)
                {
                    chain.pop();
                }
            }
        }
    }

    /// Whether what is written of a range goes to all targets.
    pub(super) fn is_straight_now(&self, range: usize) -> bool {
        self.chains[range].nodes.is_empty()
    }

    /// Whether all that was written of a range is confirmed, and goes to all targets.
    pub(super) fn is_straight(&self, range: usize) -> bool {
        self.is_straight_now(range) && self.chains[range].open().is_empty()
    }

    /// The ranges whose writes are to wait, a bit each, since too many that this node sent down
    /// chains have not passed: of those chains that have more than their share of `queue_max`, as
    /// many as there are. So one that is slow leaves room to the others, and where it had all of
    /// it, these come to as much again, at most.
    pub(super) fn chained_full(&self) -> u64 {
        let chains = || self.chains.iter().map(Chain::bytes);
        let most = self.options.queue_max;
        if chains().sum::<usize>() <= most {
            return 0;
        }
        let count = self.chains.iter().filter(|chain| !chain.nodes.is_empty());
        let count = count.count();
        let full = (chains().enumerate()).filter(|(_, bytes)| *bytes > most / count.max(1));
        full.fold(0, |ranges, (range, _)| ranges | 1 << range)
    }
}
