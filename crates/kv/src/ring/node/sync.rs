//! Ranges that are sent whole, to nodes that do not have them.
//!
//! ```text
//!   server                        target
//!   Begin  ---------------------> notes the second; waits for the next if it got something in it
//!          <--------------------- Ready
//!   a walk through the table: the keys of the range, what they have now
//!   End    ---------------------> drops what it has of the range from before that second: what
//!                                 it was not sent is not there any more
//!          <--------------------- Looks, now and then: how far that is
//!          <--------------------- Complete
//!   Leave  ---------------------> what it has is old; it drops that, too, if nothing else comes
//! ```
//!
//! What is written meanwhile is sent, too, before and behind; as what is sent of a key is what it
//! has at that moment, it does not matter which comes first. Deletes need no tombstones: a key that
//! is gone is sent as gone, or is not sent.
//!
//! One walk serves all who wait when it begins: it sends, and it drops. A node that has what is old
//! of a range takes it no more before that is gone: values would come back that were overwritten
//! and deleted since.

use super::super::local::Local;
use super::super::wire::{Message, Of};
use super::progress::{Incoming, IncomingStage, Sync};
use super::{Node, bits};
use rhythm_net::Time;
use std::time::Duration;

/// Buckets of the table looked at in one step, and keys from which on that is over.
const BUCKETS: usize = 2048;
const KEYS: usize = 512;
/// How often it is told how far a walk is that looks through what came.
const TELL_EVERY: Duration = Duration::from_secs(1);

impl Node {
    /// Tells who serves a range.
    fn tell(&mut self, node: usize, message: Message<'_>) {
        (self.peers[node].link).write(|out| message.write(out));
    }

    pub(super) fn begin(&mut self, from: usize, of: Of, number: u32, second: u32) {
        if self.follows(from, of) {
            if self.incoming.iter().all(Option::is_none) {
                let from = self.view.name(from);
                tracing::info!(
                    from,
                    "this node catches up: it is sent what it does not have"
                );
            }
            let range = usize::from(of.range);
            self.stop_reading(range);
            self.count_on(from, of);
            self.pass.drops &= !(1 << range);
            self.incoming[range] = Some(Incoming {
                of,
                number,
                since: self.tells_since(range, second),
                stage: IncomingStage::Waiting,
                is_spoilt: false,
            });
        }
    }

    /// The second from which on what is put of a range can be told from what is here now.
    fn tells_since(&self, range: usize, second: u32) -> u32 {
        second.max(self.touched[range] + 1)
    }

    /// Whether something of a range may be here.
    fn has_some(&self, range: usize) -> bool {
        self.touched[range] > 0 || self.wrote & 1 << range != 0
    }

    /// A late answer to what was begun before is none: it may have got what came since in the
    /// second before the one from which on it counts what comes now.
    pub(super) fn ready(&mut self, from: usize, of: Of, number: u32) {
        self.advance(from, of, Sync::Begun(number), Sync::Ready);
    }

    pub(super) fn end(&mut self, from: usize, of: Of) {
        if self.follows(from, of)
            && let Some(incoming) = &mut self.incoming[usize::from(of.range)]
            && incoming.stage == IncomingStage::Coming
        {
            incoming.stage = IncomingStage::Came;
        }
    }

    /// This node has a range complete, unless what came is spoilt: then who serves it sees with the
    /// message that it has not, and begins anew.
    fn has_caught_up(&mut self, incoming: Incoming) {
        let of = incoming.of;
        let range = usize::from(of.range);
        self.incoming[range] = None;
        self.stale[range] = 0;
        if !incoming.is_spoilt {
            self.completes(range);
        }
        let server = usize::from(self.claims[range].node);
        self.tell(server, Message::Complete(of));
        if self.incoming.iter().all(Option::is_none) {
            tracing::info!("this node has caught up");
        }
    }

    pub(super) fn completed(&mut self, from: usize, of: Of) {
        if self.advance(from, of, Sync::Ended, Sync::Done) {
            self.let_read(of.range.into(), from);
        }
        let of_it = self.syncs.iter().map(|range| range[from]);
        if of_it
            .into_iter()
            .all(|sync| matches!(sync, Sync::None | Sync::Kept | Sync::Out | Sync::Done))
        {
            let node = self.view.name(from);
            tracing::info!(
                node,
                "a node has copies of all that it is to have of this one"
            );
        }
    }

    /// Takes a target from one step to another. Whether it was there.
    fn advance(&mut self, from: usize, of: Of, before: Sync, behind: Sync) -> bool {
        let range = usize::from(of.range);
        if range < self.ranges() && self.serves(range) && self.is_of(of) {
            let sync = &mut self.syncs[range][from];
            if *sync == before {
                *sync = behind;
                return true;
            }
        }
        false
    }

    pub(super) fn left_out(&mut self, from: usize, of: Of, second: u32) {
        let range = usize::from(of.range);
        if self.follows(from, of) {
            self.incoming[range] = None;
            self.stop_reading(range);
        }
        // Late or not: whoever serves it since was not told that this node has it.
        if range < self.ranges() && usize::from(self.claims[range].node) != self.me {
            self.is_old(range);
            if self.has_some(range) {
                let begun = self.incoming[range].map(|incoming| incoming.since);
                self.stale[range] = begun.unwrap_or(self.tells_since(range, second));
            }
        }
    }

    /// A worker wrote in a range in this second that another served by then: it is to go with what
    /// is old, and where that has begun to go, in a walk that begins now. Where it cannot be told
    /// any more from what came of who serves the range, that is to come anew.
    pub(super) fn wrote_late(&mut self, range: usize, second: u32) {
        self.touched[range] = self.touched[range].max(second);
        if usize::from(self.claims[range].node) == self.me {
            return;
        }
        let was_complete = self.complete & 1 << range != 0;
        self.may_miss(range);
        if was_complete {
            self.stop_reading(range);
        }
        match &mut self.incoming[range] {
            Some(of) if of.stage == IncomingStage::Waiting => of.since = of.since.max(second + 1),
            Some(of) => of.is_spoilt |= of.since <= second,
            // Who serves the range sees that this node has it complete no more, and begins.
            None if was_complete => {}
            None => {
                self.stale[range] = self.stale[range].max(second + 1);
                self.pass.drops &= !(1 << range);
            }
        }
    }

    /// Whether this node has what is old of a range, and drops that.
    pub(super) fn has_left_overs(&self, range: usize) -> bool {
        let is_sent = self.incoming[range].is_some();
        self.stale[range] > 0 && self.complete & 1 << range == 0 && !is_sent
    }

    /// The ranges of which that is so, a bit each.
    fn left_overs(&self) -> u64 {
        let all = (0..self.ranges()).filter(|range| self.has_left_overs(*range));
        all.fold(0, |set, range| set | 1 << range)
    }

    /// Says that it is ready where the second has come. Before it knows the others, it is not:
    /// it might come to serve a range while one that it has not heard of has another copy.
    pub(super) fn proceed(&mut self, local: &Local<'_, '_>, now: Time) {
        if !self.knows_others(now) {
            return;
        }
        for range in 0..self.ranges() {
            if let Some(incoming) = &mut self.incoming[range]
                && incoming.stage == IncomingStage::Waiting
                && incoming.since <= local.now()
            {
                incoming.stage = IncomingStage::Coming;
                let message = Message::Ready(incoming.of, incoming.number);
                let server = usize::from(self.claims[range].node);
                self.tell(server, message);
            }
        }
    }

    /// Whether somebody waits for a walk.
    pub(super) fn has_pass(&self) -> bool {
        let sends = self.syncs.iter().flatten().any(|sync| *sync == Sync::Ready);
        sends || self.is_at(IncomingStage::Came) || self.left_overs() != 0
    }

    /// Whether this node waits for the second in which it may be ready.
    pub(super) fn awaits_second(&self) -> bool {
        self.is_at(IncomingStage::Waiting)
    }

    fn is_at(&self, stage: IncomingStage) -> bool {
        let mut incoming = self.incoming.iter().flatten();
        incoming.any(|incoming| incoming.stage == stage)
    }

    /// A step of the walk, or its beginning.
    pub(super) fn step(&mut self, local: &mut Local<'_, '_>, now: Time) {
        let rate = self.options.sync_rate as u128;
        let earned = rate * now.since(self.pass.reckoned).as_nanos() / 1_000_000_000;
        // What was not used for a while is not saved up.
        let most = (self.options.sync_rate / 100).max(1);
        self.pass.allowance = most.min(self.pass.allowance.saturating_add(earned as usize));
        self.pass.reckoned = now;
        if self.pass.bucket.is_none() {
            if !self.has_pass() {
                return;
            }
            self.turn(
                Sync::Ready,
                Sync::Walking,
                IncomingStage::Came,
                IncomingStage::Walking,
            );
            self.pass.drops = self.left_overs();
            self.pass.bucket = Some(0);
        }
        self.leave_behind(now);
        let mut met = 0;
        for _ in 0..BUCKETS {
            let Some(bucket) = self.pass.bucket.filter(|_| self.slow().next().is_none()) else {
                return;
            };
            if self.pass.allowance == 0 || met >= KEYS {
                return;
            }
            let mut keys = std::mem::take(&mut self.pass.keys);
            let is_there = local.walk(bucket, |key| {
                keys.push(key.len() as u8);
                keys.extend_from_slice(key);
            });
            let mut rest = &keys[..];
            while let Some((length, behind)) = rest.split_first() {
                let (key, behind) = behind.split_at(usize::from(*length));
                rest = behind;
                met += 1;
                self.visit(key, local);
            }
            keys.clear();
            self.pass.keys = keys;
            self.pass.bucket = Some(bucket + 1);
            if !is_there {
                self.pass.bucket = None;
                self.finish();
                return;
            }
        }
    }

    /// Tells those whose ranges came, and are looked through, how far that is: the table may be
    /// long, and one that leaves waits for the end.
    pub(super) fn tell_looks(&mut self, now: Time) {
        let is_due = now.since(self.pass.told_at) >= TELL_EVERY;
        let Some(bucket) = self.pass.bucket.filter(|_| is_due) else {
            return;
        };
        self.pass.told_at = now;
        for range in 0..self.ranges() {
            let Some(Incoming { of, stage, .. }) = self.incoming[range] else {
                continue;
            };
            let walk = match stage {
                IncomingStage::Waiting | IncomingStage::Coming => continue,
                // This walk was under way, and the next does.
                IncomingStage::Came => 0,
                IncomingStage::Walking => 1 << 48,
            };
            let server = usize::from(self.claims[range].node);
            self.tell(server, Message::Looks(of, walk + bucket as u64));
        }
    }

    /// The nodes for whom the walk is, and waits. What else there is for them, or for others, does
    /// not count: where clients write more than a node takes that never goes down, and the walk has
    /// its share all the same.
    fn slow(&self) -> impl Iterator<Item = usize> {
        let most = self.options.queue_max / 2;
        let is_full = move |node: &usize| self.peers[*node].link.held_of_walk() > most;
        let is_met = move |node: &usize| self.syncs.iter().any(|of| of[*node] == Sync::Walking);
        self.others().filter(is_full).filter(is_met)
    }

    /// Who takes nothing of a walk does not hold up others, for whom it is, too, or the next: he is
    /// sent all anew, when he takes something again.
    fn leave_behind(&mut self, now: Time) {
        let slow = self.slow().filter(|node| !self.responds(*node, now));
        let slow: Vec<usize> = slow.filter(|node| self.others_wait(*node)).collect();
        for node in slow {
            let name = self.view.name(node);
            tracing::info!(
                node = name,
                "a node takes nothing of what it is to have: it is sent all anew, behind others"
            );
            for range in 0..self.ranges() {
                if self.syncs[range][node] == Sync::Walking {
                    self.begins += 1;
                    let (of, number) = (self.of(range), self.begins);
                    self.syncs[range][node] = Sync::Begun(number);
                    self.tell(node, Message::Begin(of, number));
                }
            }
        }
    }

    /// Whether somebody beside a node, maybe this one, waits for a walk that is under way.
    fn others_wait(&self, node: usize) -> bool {
        let waits = |(other, sync): (usize, &Sync)| {
            other != node && matches!(sync, Sync::Ready | Sync::Walking)
        };
        let mut syncs = self.syncs.iter();
        syncs.any(|of| of.iter().enumerate().any(waits))
            || self.is_at(IncomingStage::Came)
            || self.is_at(IncomingStage::Walking)
            || self.left_overs() | self.pass.drops != 0
    }

    /// The walk met a key.
    fn visit(&mut self, key: &[u8], local: &mut Local<'_, '_>) {
        let range = self.view.placement().range(key);
        if let Some(incoming) = self.incoming[range]
            && incoming.stage == IncomingStage::Walking
        {
            local.remove(key, |item| item.last_access() < incoming.since);
        }
        if self.pass.drops & 1 << range != 0 {
            let since = self.stale[range];
            local.remove(key, |item| item.last_access() < since);
        }
        if self.serves(range) {
            let of = self.of(range);
            for node in bits(self.targets[range]) {
                if self.syncs[range][node] == Sync::Walking {
                    let link = &mut self.peers[node].link;
                    let before = link.held();
                    link.write(|out| local.tell(of, key, out));
                    let sent = link.held() - before;
                    link.walked(sent);
                    self.caught_up += sent as u64;
                    self.pass.allowance = self.pass.allowance.saturating_sub(sent);
                }
            }
        }
    }

    /// The walk is over.
    fn finish(&mut self) {
        for range in 0..self.ranges() {
            let of = self.of(range);
            for node in 0..self.peers.len() {
                if self.syncs[range][node] == Sync::Walking {
                    self.tell(node, Message::End(of));
                    self.syncs[range][node] = Sync::Ended;
                }
            }
            if let Some(incoming) = self.incoming[range]
                && incoming.stage == IncomingStage::Walking
            {
                self.has_caught_up(incoming);
            }
        }
        for range in bits(std::mem::take(&mut self.pass.drops)) {
            if self.touched[range] < std::mem::take(&mut self.stale[range]) {
                self.touched[range] = 0;
            }
        }
    }

    /// All that are at one step are at another.
    fn turn(&mut self, sync: Sync, to_sync: Sync, stage: IncomingStage, to_stage: IncomingStage) {
        let syncs = self.syncs.iter_mut().flatten();
        (syncs.filter(|at| **at == sync)).for_each(|at| *at = to_sync);
        let incoming = self.incoming.iter_mut().flatten();
        (incoming.filter(|at| at.stage == stage)).for_each(|at| at.stage = to_stage);
    }
}
