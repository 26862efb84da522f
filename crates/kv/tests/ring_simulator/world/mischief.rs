//! Who dies, leaves, is stopped, or does not hear another.

use super::{Event, World};
use crate::history::History;
use rhythm_kv::ring::Unanswered;

impl World {
    pub(super) fn mischief(&mut self) {
        let count = self.nodes.len();
        let alive = self.nodes.iter().flatten().count();
        if self.is_whole() {
            let stay = self.nodes.iter().flatten().filter(|live| !live.is_leaving);
            self.spare = self.options.replicas.min(stay.count().saturating_sub(1));
        }
        let victim = self.random.below(count as u64) as usize;
        let is_bold = self.random.percent(5);
        self.clog();
        self.flush();
        self.cut_from_etcd();
        if self.unreached.iter().any(|until| *until > self.now) {
            // It goes on to confirm writes until its lease is over, and may be who has the only
            // copy if another goes.
            return self.push(200_000, Event::Mischief);
        }
        if self.remove_key() {
            // It may go on until it hears of that: it is reached, and not stopped.
            return self.push(500_000, Event::Mischief);
        }
        match self.random.below(11) {
            // Somebody is stopped, for long enough to lose its lease.
            5 if self.leases.is_some() && self.nodes[victim].is_some() && self.spare > 0 => {
                self.counts.stops += 1;
                self.spare -= 1;
                let until = self.now + 300_000 + self.random.below(3_000_000);
                self.stopped[victim] = until.max(self.stopped[victim]);
                self.say(|| format!("node {victim} is stopped"));
                if !self.options.acked {
                    self.lose_all();
                }
            }
            // Somebody dies.
            0..6 if self.nodes[victim].is_some() && alive > 1 && (self.spare > 0 || is_bold) => {
                self.crash(victim);
                let after = [30_000, 300_000, 1_500_000, 6_000_000];
                let after = after[self.random.below(4) as usize] + self.random.below(100_000);
                self.push(after, Event::Back(victim));
            }
            // Somebody is told to end.
            6 if self.nodes[victim].is_some() && alive > 1 => {
                self.push(0, Event::Leave(victim, self.lives[victim]));
            }
            // Two do not hear each other, shortly, or for long enough to be taken for dead.
            7..9 => {
                let other = self.random.below(count as u64) as usize;
                if victim != other {
                    let long = self.random.percent(10);
                    let is_leased = self.leases.is_some();
                    if long && is_leased {
                        // Each may take what it has of the other's for old.
                        if self.spare == 0 {
                            return self.push(100_000, Event::Mischief);
                        }
                        self.spare -= 1;
                    } else if long && !self.is_split {
                        self.is_split = true;
                        self.keys.iter_mut().for_each(History::lose);
                    }
                    self.counts.partitions += 1;
                    self.say(|| format!("{victim} and {other} deaf, long: {long}"));
                    self.deaf[victim][other] = true;
                    self.deaf[other][victim] = self.random.percent(70);
                    let after = match (long, is_leased) {
                        (true, true) => 1_000_000 + self.random.below(6_000_000),
                        (true, false) => 2_000_000,
                        (false, _) => 150_000,
                    };
                    self.push(after, Event::Heal);
                }
            }
            // A node's thread stands still, shortly, or for long enough to be taken for dead.
            9 if self.nodes[victim].is_some() && self.leases.is_none() => {
                let long = self.random.percent(10);
                if long && !self.is_split {
                    self.is_split = true;
                    self.keys.iter_mut().for_each(History::lose);
                }
                self.counts.stops += 1;
                let most = if long { 2_000_000 } else { 250_000 };
                let until = self.now + self.random.below(most);
                self.stopped[victim] = until.max(self.stopped[victim]);
                self.say(|| format!("node {victim} stands still, long: {long}"));
            }
            _ => {}
        }
        let after = 50_000 + self.random.below(1_500_000);
        self.push(after, Event::Mischief);
    }

    /// What one says to another is long on its way, though it is heard: not for so long, at a time,
    /// that the other is taken for one that takes nothing.
    fn clog(&mut self) {
        let count = self.nodes.len() as u64;
        let random = &mut self.of_clogs;
        let [from, to] = [(); 2].map(|()| random.below(count) as usize);
        let is_free = self.clogged[from][to] + 1_000_000 < self.now;
        if self.ether.is_none() && random.percent(30) && is_free {
            let until = self.now + 100_000 + random.below(1_400_000);
            self.clogged[from][to] = until;
            self.say(|| format!("{from} to {to} is clogged until {until}"));
        }
    }

    /// A node and etcd do not hear each other, for long enough that its lease is over: it, and all
    /// others, hear each other meanwhile. Or so it is with all of them, or all but one; where it is
    /// all, one may die before it is over.
    fn cut_from_etcd(&mut self) {
        // Under `async` what it shows may be old meanwhile.
        let Some(leases) = self.leases.as_ref().filter(|_| self.options.acked) else {
            return;
        };
        let (random, lasts) = (&mut self.of_etcd, leases.lasts);
        let count = self.nodes.len();
        let victim = random.below(count as u64) as usize;
        let is_leaving = self.nodes.iter().flatten().any(|live| live.is_leaving);
        let is_reached = self.unreached.iter().all(|until| *until <= self.now);
        let may = is_reached && self.nodes[victim].is_some() && !is_leaving && self.spare > 0;
        if !may || !random.percent(20) {
            return;
        }
        self.counts.unreached += 1;
        let are_all = random.percent(25);
        let are_going = self.stopped.iter().all(|until| *until <= self.now);
        let is_deaf = self.deaf.iter().flatten().any(|is_deaf| *is_deaf);
        if (are_all || random.percent(25)) && are_going && !is_deaf {
            self.counts.outages += 1;
            // What one has nobody else may have for a while.
            self.spare = 0;
            for node in (0..count).filter(|node| are_all || *node != victim) {
                self.unreached[node] = self.now + lasts * 3 / 2 + random.below(3 * lasts);
            }
            if are_all && random.percent(50) {
                let after = 1 + random.below(lasts * 3 / 2);
                self.push(after, Event::Die(victim, self.lives[victim]));
            }
            return self.say(|| format!("most do not reach etcd, {victim} too: {are_all}"));
        }
        self.spare -= 1;
        self.unreached[victim] = self.now + lasts / 2 + random.below(3 * lasts);
        self.say(|| format!("node {victim} does not reach etcd"));
    }

    /// Somebody removes the key of a node whose lease is there: others hear that it is not, and
    /// take what it serves. Whether that was done.
    fn remove_key(&mut self) -> bool {
        let Some(leases) = self.leases.as_mut().filter(|_| self.options.acked) else {
            return false;
        };
        let random = &mut self.of_keys;
        let victim = random.below(self.nodes.len() as u64) as usize;
        let is_leaving = self.nodes.iter().flatten().any(|live| live.is_leaving);
        let are_going = self.stopped.iter().all(|until| *until <= self.now);
        let may = are_going && self.nodes[victim].is_some() && !is_leaving && self.spare > 0;
        if !random.percent(10) || !may || leases.ends(victim).is_none() {
            return false;
        }
        self.removed[victim] = leases.revoke(victim);
        self.unaware[victim] = self.now + leases.slow();
        self.counts.removed += 1;
        self.spare -= 1;
        self.tell_members();
        self.say(|| format!("the key of node {victim} is removed"));
        true
    }

    pub(super) fn crash(&mut self, victim: usize) {
        self.counts.crashes += 1;
        let is_spare = self.spare > 0;
        self.spare -= usize::from(is_spare);
        self.say(|| format!("node {victim} dies"));
        self.nodes[victim] = None;
        self.stopped[victim] = 0;
        self.ticks[victim] += 1;
        let gone: Vec<usize> = (self.asked.iter())
            .filter(|(_, asked)| asked.node == victim)
            .map(|(command, _)| *command)
            .collect();
        self.answered(
            gone.into_iter()
                .map(|command| (command, Err(Unanswered::Unknown)))
                .collect(),
        );
        if !self.options.acked || !is_spare {
            self.lose_all();
        }
    }
}
