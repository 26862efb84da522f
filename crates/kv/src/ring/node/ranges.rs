//! Who serves a range: claims, taking over from the dead, handing over to who comes first.
//!
//! ```text
//!   nobody serves it, and this node is the first that has it ---> take: a claim of the next epoch
//!   this node serves it, and one before it has it complete
//!     --> hold commands --> fence: all writes of workers are known
//!         --> all targets have them --> Serve --> the other has that: it serves
//! ```
//!
//! That takes a moment, in which nobody serves the range. Where one that is waited for may be dead
//! it is not begun, and until the other is told to serve it is taken back, and tried again after a
//! pause: one that answers now and then would have the range served by nobody half of the time.
//!
//! Messages about a range bear the epoch of the claim under which they are said; those of an older
//! claim than the receiver knows are late, and dropped (`tenure.rs`).

use super::super::wire::{Claim, Message, Of, Stay};
use super::effects::Effects;
use super::progress::{Handing, HandingStage, Pause, Sync};
use super::{Node, bits};
use rhythm_net::Time;
use std::time::Duration;

/// A fence that is not answered for so long is asked for again.
const FENCE_AGAIN: Duration = Duration::from_secs(1);

impl Node {
    /// Whether this node serves a range. While it hands it over it does, but takes no commands.
    pub(super) fn serves(&self, range: usize) -> bool {
        usize::from(self.claims[range].node) == self.me
            && self.claims[range].epoch > 0
            && self.complete & 1 << range != 0
    }

    /// Who serves a range, of the nodes that are there.
    pub(super) fn server(&self, range: usize) -> Option<usize> {
        let Claim { epoch, node } = self.claims[range];
        let node = usize::from(node);
        let has = |complete: u64| complete & 1 << range != 0;
        let serves = match node == self.me {
            true => self.serves(range),
            // Before it has heard of the claim itself, what it said was about an earlier one.
            false => {
                let peer = &self.peers[node];
                let is_late = peer.epochs[range] < epoch;
                epoch > 0 && self.is_alive(node) && (is_late || has(peer.complete))
            }
        };
        serves.then_some(node)
    }

    /// What people call a range: in a ring of a file by the node whose it is.
    pub(super) fn range_name(&self, range: usize) -> String {
        match self.options.lease {
            None => self.view.name(range),
            Some(_) => range.to_string(),
        }
    }

    /// A range under the claim that is known.
    pub(super) fn of(&self, range: usize) -> Of {
        Of {
            range: range as u8,
            epoch: self.claims[range].epoch,
        }
    }

    /// Somebody knows of this claim.
    pub(super) fn learn(&mut self, range: usize, claim: Claim) {
        if claim <= self.claims[range] || usize::from(claim.node) >= self.peers.len() {
            return;
        }
        let known = self.claims[range];
        if claim.node == known.node && self.tenure(claim.epoch) == self.tenure(known.epoch) {
            self.claims[range] = claim;
            return;
        }
        // Else it took the range.
        let is_given = self.handing[range].is_some_and(|handing| {
            matches!(handing.stage, HandingStage::Serve(_))
                && handing.to == usize::from(claim.node)
                && self.tenure(claim.epoch) == self.tenure(self.next_tenure(known.epoch))
        });
        if self.serves(range) && !is_given {
            // Whoever serves it now may have what this node has not.
            let (name, by) = (self.range_name(range), self.view.name(claim.node.into()));
            tracing::warn!(range = name, by, "another node serves this range");
            self.may_miss(range);
            self.disputed |= 1 << range;
        }
        let is_same_tenure = self.tenure(claim.epoch) == self.tenure(known.epoch);
        if is_same_tenure && claim.epoch > known.epoch {
            // Two took it, and this one renewed its claim since: what it said meanwhile was dropped
            // here, as of the lower claim.
            self.may_miss(range);
        }
        self.flush_moved(range);
        self.adopt(range, claim);
    }

    /// Another node says who serves a range as far as it knows. Where that is somebody else who
    /// took it when this node did, it dropped what it was sent, and is sent it anew.
    pub(super) fn follows_another(&mut self, from: usize, range: usize, claim: Claim) {
        let Claim { epoch, node } = self.claims[range];
        let is_same_tenure = self.tenure(claim.epoch) == self.tenure(epoch);
        let renews = self.options.lease.is_none();
        if renews && claim.node != node && is_same_tenure && self.serves(range) {
            self.syncs[range][from] = Sync::None;
        }
    }

    /// From now on this claim counts.
    fn adopt(&mut self, range: usize, claim: Claim) {
        if self.wrote & 1 << range != 0 {
            // Workers may have until now, by clocks that may show the next second, as they may have
            // read.
            self.touched[range] = self.touched[range].max(self.second + 1);
            self.wrote &= !(1 << range);
        }
        self.stop_reading(range);
        self.claims[range] = claim;
        self.handing[range] = None;
        self.pauses[range] = Pause::default();
        self.incoming[range] = None;
        self.targets[range] = 0;
        self.syncs[range].fill(Sync::None);
        self.leave_chain(range);
        if usize::from(claim.node) == self.me {
            for node in bits(self.alive() & !(1 << self.me)) {
                let keeps = !self.is_behind(node, range) && !self.flushes.is_unheard_by(node);
                self.syncs[range][node] = if keeps { Sync::Kept } else { Sync::None };
            }
            if self.options.lease.is_none() {
                self.begin_without(range);
            }
            self.await_members();
        }
    }

    /// What this node has of a range may miss what was confirmed since.
    pub(super) fn may_miss(&mut self, range: usize) {
        let has = self.complete & 1 << range != 0;
        if has && self.options.lease.is_some() {
            self.counts[range] = self.claims[range].epoch;
        }
        self.complete &= !(1 << range);
    }

    /// What this node has of a range is old: others have more.
    pub(super) fn is_old(&mut self, range: usize) {
        self.complete &= !(1 << range);
        if self.options.lease.is_some() {
            self.counts[range] = 0;
        }
    }

    /// This node has a range complete.
    pub(super) fn completes(&mut self, range: usize) {
        self.complete |= 1 << range;
        if self.options.lease.is_some() {
            self.counts[range] = 0;
        }
    }

    /// Whether a message about a range is of who serves it, by the claim that counts.
    pub(super) fn follows(&mut self, from: usize, of: Of) -> bool {
        let range = usize::from(of.range);
        if range >= self.ranges() {
            return false;
        }
        let claim = Claim {
            epoch: of.epoch,
            node: from as u8,
        };
        self.learn(range, claim);
        usize::from(self.claims[range].node) == from && self.is_of(of)
    }

    /// Who served the range until now gives it to this node.
    pub(super) fn serve(&mut self, from: usize, of: Of, complete: u64) {
        let range = usize::from(of.range);
        let epoch = self.next_tenure(of.epoch);
        if !self.follows(from, of) || self.complete & 1 << range == 0 {
            return;
        }
        // It may have been said long ago, and taken back since. Who stands by it says so in its
        // claims, when it knows that this node has this.
        if !self.is_attentive() {
            return;
        }
        let (name, giver) = (self.range_name(range), self.view.name(from));
        tracing::debug!(
            range = name,
            from = giver,
            "this node was given a range, and serves it"
        );
        let node = self.me as u8;
        self.flush_moved(range);
        self.adopt(range, Claim { epoch, node });
        let have = bits(complete & self.alive() & !(1 << self.me));
        // Where who gave it has not heard of a flush, this node may have kept what that one has,
        // and the others dropped: they keep their copies until they are sent it anew.
        let is_ahead = self.is_ahead_of(from);
        let is_alike = |node: &usize| !is_ahead || *node == from;
        let have = have.filter(|node| is_alike(node) && !self.flushes.is_unheard_by(*node));
        let have = have.fold(0, |set, node| set | 1 << node);
        self.say_counts(range, have);
        for node in bits(have) {
            self.syncs[range][node] = Sync::Done;
            self.let_read(range, node);
        }
    }

    /// Takes what nobody serves, hands over what another should serve, and says who gets what.
    pub(super) fn decide(&mut self, now: Time, out: &mut Effects) {
        self.cut_off(now);
        for range in 0..self.ranges() {
            let is_nobodys = self.server(range).is_none() && !self.has_left_overs(range);
            if is_nobodys && self.is_next(range, now) {
                let epoch = self.next_epoch(range);
                let name = self.range_name(range);
                tracing::debug!(range = name, "this node takes a range that nobody serves");
                let node = self.me as u8;
                // It stays, as others are sent what is here.
                drop(self.take_flushed(range));
                self.adopt(range, Claim { epoch, node });
                self.completes(range);
                self.await_unshown(now);
            }
            if self.serves(range) {
                self.aim(range);
                self.hand_over(range, now, out);
            }
            let route = match self.handing[range] {
                Some(_) => None,
                None => self.server(range),
            };
            if route == Some(self.me) {
                self.wrote |= 1 << range;
            }
            if route != self.view.route(range) {
                self.view.set_route(range, route);
                self.dispatch_all(now, out);
            }
        }
    }

    /// Whether a range that nobody serves is this node's to take.
    fn is_next(&self, range: usize, now: Time) -> bool {
        // One that leaves takes it all the same, and hands it over: it may hear who serves the
        // range where those behind it do not.
        let mut alive = self.alive_around(range);
        let most = self.most_worth(range);
        let first = alive.find(|node| self.worth(*node, range) == most);
        self.is_settled(now)
            && first == Some(self.me)
            && !self.is_with_refused(range, now)
            && !self.awaits(range, now)
    }

    fn alive_around(&self, range: usize) -> impl Iterator<Item = usize> {
        let around = self.roster.around(range);
        around.filter(|node| self.is_alive(*node))
    }

    /// What the best copy of those that are there is [worth](Self::worth).
    pub(super) fn most_worth(&self, range: usize) -> (bool, u64) {
        let alive = self.alive_around(range);
        let worth = alive.map(|node| self.worth(node, range));
        worth.max().unwrap_or_default()
    }

    /// What a node's copy of a range is worth where nobody serves it: whether the node has it
    /// complete, and under which epoch it counts. Of those that have it complete, one under an
    /// older epoch than another may lack what was confirmed since; with leases none does, and it
    /// matters where nobody has it, for who had it last has most of it.
    fn worth(&self, node: usize, range: usize) -> (bool, u64) {
        let (complete, counts) = match node == self.me {
            true => (self.complete, &self.counts),
            false => (self.peers[node].complete, &self.peers[node].counts),
        };
        let has = complete & 1 << range != 0;
        let matters = has == self.options.lease.is_none();
        (has, if matters { counts[range] } else { 0 })
    }

    /// Finds the targets of a range: of the nodes that are there the first, one more than copies
    /// are wanted (one of them is to serve it), and the next until so many have it complete.
    fn aim(&mut self, range: usize) {
        let epoch = self.claims[range].epoch;
        for node in self.others() {
            // It says that it has not: it took itself for one who was relieved by somebody else.
            let peer = &self.peers[node];
            let has_not = peer.epochs[range] >= epoch && peer.complete & 1 << range == 0;
            let sync = &mut self.syncs[range][node];
            if *sync == Sync::Done && has_not {
                *sync = Sync::Out;
            }
        }
        // Who was told to serve it may do so by now: that cannot be taken back.
        let handing = self.handing[range];
        let given = handing.filter(|handing| matches!(handing.stage, HandingStage::Serve(_)));
        let given = given.map(|handing| handing.to);
        let mut targets = 0_u64;
        let (mut place, mut copies) = (0, 0);
        for node in self.around(range).filter(|node| self.is_alive(*node)) {
            let is_done = self.syncs[range][node] == Sync::Done;
            let is_missing = copies < self.options.replicas;
            let is_wanted = match node != self.me && self.leaving & 1 << node != 0 {
                _ if given == Some(node) => true,
                // Where it is sent the range anew, it has all that was confirmed all the same.
                true => {
                    let has = self.peers[node].complete & 1 << range != 0;
                    is_missing && has && self.needs(range, targets)
                }
                false => is_missing || place <= self.options.replicas,
            };
            place += 1;
            if node != self.me && is_wanted {
                targets |= 1 << node;
                copies += usize::from(is_done);
            }
        }
        let of = self.of(range);
        let mut told = 0_u64;
        for node in bits(self.alive() & !(1 << self.me)) {
            let is_target = targets & 1 << node != 0;
            let sync = &mut self.syncs[range][node];
            let is_old = match (is_target, *sync) {
                (true, Sync::None) => true,
                (true, Sync::Kept) => {
                    // It may be the next to serve it, without what is not confirmed yet.
                    self.chains[range].is_new = true;
                    false
                }
                (true, Sync::Out) => false,
                (false, was) if was != Sync::Out => true,
                _ => continue,
            };
            *sync = match is_target {
                true => {
                    self.begins += 1;
                    Sync::Begun(self.begins)
                }
                false => Sync::Out,
            };
            let number = self.begins;
            let link = &mut self.peers[node].link;
            if is_old {
                told |= 1 << node;
                link.write(|out| Message::Leave(of).write(out));
            }
            if is_target {
                link.write(|out| Message::Begin(of, number).write(out));
            }
        }
        self.targets[range] = targets;
        self.wait_until_told(range, told);
    }

    /// These nodes are told that what they have is old. Nothing is confirmed any more before they
    /// know that: until then they may say that they have all, and it has to be so.
    fn wait_until_told(&mut self, range: usize, told: u64) {
        if told == 0 {
            return;
        }
        self.batch += 1;
        for node in bits(told) {
            let link = &mut self.peers[node].link;
            // Where what was under way to it is lost, what waits for that does now for this.
            let first = self.waiting.front().filter(|_| link.confirmed().is_none());
            link.mark(first.map_or(self.batch, |first| first.batch));
        }
        self.chains[range].settled = self.batch;
    }

    /// Gives a range to the first before this node that has it complete.
    fn hand_over(&mut self, range: usize, now: Time, out: &mut Effects) {
        let to = self
            .around(range)
            .take_while(|node| *node != self.me)
            .find(|node| self.syncs[range][*node] == Sync::Done);
        let Some(handing) = self.handing[range] else {
            // Who gets it would not know that one may show what he served: this node waits.
            // And who leaves has no time for pauses.
            let pause = match self.stay() {
                Stay::Stays => self.pauses[range].until,
                _ => Time::ZERO,
            };
            let may = now >= self.shown_until.max(pause);
            if let Some(to) = to.filter(|to| may && self.is_soon_handed(*to, None, now)) {
                self.fences += 1;
                let (stage, asked) = (HandingStage::Fence(self.fences), now);
                self.handing[range] = Some(Handing { to, stage, asked });
                out.fence = Some(self.fences);
            }
            return;
        };
        let Handing { to, mut asked, .. } = handing;
        let given = self.given(range, to);
        if self.syncs[range][to] != Sync::Done {
            // It may serve it already, as long as it has its lease, and says so when it is there
            // again, be it with another: what is confirmed here meanwhile is under a later claim.
            let is_told = matches!(handing.stage, HandingStage::Serve(_));
            let is_leased = self.options.lease.is_some();
            if is_told && is_leased && !self.is_alive(to) {
                return self.adopt(range, given);
            }
            if is_told && self.options.lease.is_none() {
                // It may have taken it, and stand still before it said so: when it goes on, its
                // claim is to be late, and what is confirmed here meanwhile to count.
                let (epoch, node) = (self.next_tenure(given.epoch), self.me as u8);
                self.adopt(range, Claim { epoch, node });
                return self.aim(range);
            }
            // It is gone. Commands that came meanwhile waited, and are executed here.
            self.handing[range] = None;
            return;
        }
        let stage = match handing.stage {
            stage if !self.is_soon_handed(to, Some(stage), now) => {
                self.handing[range] = None;
                self.pauses[range].begin(now);
                return;
            }
            // A worker may have panicked, and what it was asked is lost.
            HandingStage::Fence(fence) if now.since(asked) >= FENCE_AGAIN => {
                out.fence = Some(self.fences);
                asked = now;
                HandingStage::Fence(fence)
            }
            HandingStage::Flush(batch)
                if self.is_straight(range) && self.others().all(|node| self.has(node, batch)) =>
            {
                let done = (self.others()).filter(|node| self.syncs[range][*node] == Sync::Done);
                let done = done.fold(1 << self.me, |set, node| set | 1_u64 << node);
                let message = Message::Serve(self.of(range), done & !(1 << to));
                self.batch += 1;
                let link = &mut self.peers[to].link;
                link.write(|out| message.write(out));
                link.mark(self.batch);
                HandingStage::Serve(self.batch)
            }
            HandingStage::Serve(batch) if self.has(to, batch) => {
                let (name, by) = (self.range_name(range), self.view.name(to));
                tracing::debug!(
                    range = name,
                    by,
                    "another node serves this range from now on"
                );
                return self.adopt(range, given);
            }
            stage => stage,
        };
        self.handing[range] = Some(Handing { to, stage, asked });
    }

    /// The claim of a node that is given a range.
    fn given(&self, range: usize, to: usize) -> Claim {
        Claim {
            epoch: self.next_tenure(self.claims[range].epoch),
            node: to as u8,
        }
    }

    /// This node's lease was over. Whoever was told to serve a range of its may have taken it: he
    /// says so, or is waited for, as any other who claims what nobody serves.
    pub(super) fn end_handings(&mut self) {
        for range in 0..self.ranges() {
            if let Some(Handing { to, stage, .. }) = self.handing[range].take()
                && matches!(stage, HandingStage::Serve(_))
            {
                let given = self.given(range, to);
                self.may_miss(range);
                self.adopt(range, given);
            }
        }
    }

    /// Whether it will not be long until a range is handed to a node, or that cannot be taken back
    /// any more: meanwhile nobody serves the range. One that has its lease may be dead, and is not
    /// to be waited for: neither who is to serve it, nor another that has not acknowledged all.
    fn is_soon_handed(&self, to: usize, stage: Option<HandingStage>, now: Time) -> bool {
        let is_awaited = |node: usize| match stage {
            Some(HandingStage::Serve(_)) => false,
            _ if node == to => true,
            Some(HandingStage::Flush(batch)) => !self.has(node, batch),
            _ => self.is_alive(node) && self.peers[node].link.held() > 0,
        };
        self.others()
            .all(|node| !is_awaited(node) || self.responds(node, now))
    }

    /// What workers wrote until this fence was asked for is known.
    pub fn fenced(&mut self, fence: u64, now: Time, out: &mut Effects) {
        let others: Vec<usize> = self.others().collect();
        for range in 0..self.ranges() {
            if let Some(handing) = &mut self.handing[range]
                && let HandingStage::Fence(of) = handing.stage
                && of <= fence
            {
                self.batch += 1;
                handing.stage = HandingStage::Flush(self.batch);
                for node in &others {
                    self.peers[*node].link.mark(self.batch);
                }
            }
        }
        // Where nothing is under way, nobody has to be waited for.
        self.decide(now, out);
    }
}

#[cfg(test)]
mod tests;
