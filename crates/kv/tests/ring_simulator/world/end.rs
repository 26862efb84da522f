//! What must be when nothing happens any more: all is served by who is to serve it, copies are the
//! same, and what was acknowledged is there.

use super::{Event, WHOLE_WITHIN, World};
use crate::cluster::{Live, Op, key};
use crate::network::CALM;
use rhythm_kv::ring::Scheme;
use std::cmp::Reverse;

/// Once the ring is whole, it stays so within this, in microseconds.
const STAYS_WITHIN: u64 = 5_000_000;

impl World {
    /// All that is there serves something, and has as many copies as there are to be.
    pub(super) fn is_whole(&self) -> bool {
        // What comes of these is not seen yet.
        let is_deaf = self.deaf.iter().flatten().any(|is_deaf| *is_deaf);
        let late = self.stopped.iter().chain(&self.unreached);
        let mut late = late.chain(self.clogged.iter().flatten());
        if is_deaf || late.any(|until| *until > self.now) {
            return false;
        }
        let live: Vec<(usize, &Live)> = (self.nodes.iter().enumerate())
            .filter_map(|(node, live)| Some((node, live.as_ref()?)))
            .collect();
        // Who has no lease gives up its copies when it has another.
        if !live.iter().all(|(_, live)| live.may_write(self.time())) {
            return false;
        }
        let all = live.iter().fold(0, |set, (node, _)| set | 1_u64 << node);
        (0..self.placement.ranges()).all(|range| {
            let mut servers = live.iter().filter(|(node, live)| {
                let claim = live.node.claim(range);
                claim.epoch > 0
                    && usize::from(claim.node) == *node
                    && live.node.complete() & 1 << range != 0
            });
            let (server, others) = (servers.next(), servers.next());
            let Some((server, of)) = server.filter(|_| others.is_none()) else {
                return false;
            };
            let first = self.roster.around(range).find(|node| all & 1 << node != 0);
            let copies = live.iter().filter(|(node, live)| {
                of.node.targets(range) & 1 << node != 0 && live.node.complete() & 1 << range != 0
            });
            let wanted = self.options.replicas.min(live.len() - 1);
            first == Some(*server)
                && of.node.alive() == all
                && of.node.targets(range).count_ones() as usize == wanted
                && copies.count() == wanted
                && live
                    .iter()
                    .all(|(_, live)| live.node.claim(range) == of.node.claim(range))
        })
    }

    /// Whether all copies are made. A node that had a range complete under an earlier claim has it
    /// so while it is sent it again, and counts in [`is_whole`](Self::is_whole): nothing that was
    /// acknowledged is missing there. But it may have writes that nobody acknowledged, and that
    /// whoever serves the range now never got. These go when all has come anew, which waits for a
    /// second in which nothing of it was put or read there.
    fn has_caught_up(&self) -> bool {
        self.nodes.iter().flatten().all(|live| {
            let ranges = live.node.status(self.time()).ranges;
            ranges.iter().all(|range| range.copies == range.targets)
        })
    }

    /// Who answers reads of a range itself.
    fn reader(&self, range: usize) -> Option<usize> {
        if self.options.scheme != Scheme::Chain {
            return Some(self.first(range));
        }
        let now = self.time();
        let may_read = |live: &Live| live.view.may_read_copy(range, now);
        let mut nodes = self.nodes.iter();
        nodes.position(|live| live.as_ref().is_some_and(may_read))
    }

    fn has_readers(&self) -> bool {
        (0..self.placement.ranges()).all(|range| self.reader(range).is_some())
    }

    /// Who is to serve a range, when all are there.
    fn first(&self, range: usize) -> usize {
        self.roster.around(range).next().expect("there are nodes")
    }
    /// Everybody comes back, and after a while all is as it should be.
    pub(super) fn quiet(&mut self) {
        self.weather = CALM;
        self.is_quiet = true;
        let rest: Vec<_> = self.queue.drain().collect();
        for Reverse((at, number, event)) in rest {
            if !matches!(event, Event::Mischief | Event::Client(_)) {
                self.queue.push(Reverse((at, number, event)));
            }
        }
        self.happen(Event::Heal);
        for node in 0..self.nodes.len() {
            self.happen(Event::Back(node));
        }
        let reached_at = self.unreached.iter().copied().fold(self.now, u64::max);
        self.go(reached_at);
        let mut until = self.now + WHOLE_WITHIN;
        let is_over = |world: &World| {
            let is_there = |live: &Live| !live.is_leaving;
            let are_there = (world.nodes.iter()).all(|live| live.as_ref().is_some_and(is_there));
            let has_settled = world.is_whole() && world.has_caught_up() && world.has_readers();
            are_there && has_settled && world.asked.is_empty() && !world.is_flushing()
        };
        loop {
            while !is_over(self) && self.now < until {
                self.go(self.now + 100_000);
            }
            // What is under way to copies; and two may begin anew with each other yet, for which
            // one who is sent all anew waits for up to two seconds. No more comes behind that.
            until = until.min(self.now + STAYS_WITHIN);
            self.go(self.now + 1_000_000);
            if is_over(self) || self.now >= until {
                break;
            }
        }
        for (node, live) in self.nodes.iter().enumerate() {
            self.say(|| {
                let status = live.as_ref().map(|live| live.node.status(self.time()));
                format!("node {node} in the end: {status:?}")
            });
        }
        assert!(self.is_whole(), "the ring is not whole");
        assert!(self.has_caught_up(), "copies are not complete");
        assert!(self.has_readers(), "chains did not come about");
        assert!(self.asked.is_empty(), "commands without an answer");
        assert!(!self.is_flushing(), "a flush without an answer");
        let now = self.time();
        for range in 0..self.placement.ranges() {
            let server = self.first(range);
            let mut of = |node: usize| {
                let live = self.nodes[node].as_mut().expect("all are there");
                (live.items(range, now), live.node.targets(range))
            };
            let (items, targets) = of(server);
            for node in (0..64).filter(|node| targets & 1 << node != 0) {
                assert_eq!(of(node).0, items, "range {range} at {server} and {node}");
            }
        }
        for number in 0..self.keys.len() {
            let range = self.placement.range(key(number).as_bytes());
            let reader = self.reader(range).expect("there is one");
            let live = self.nodes[reader].as_mut().expect("all are there");
            let (done, _) = live.ask(&[(0, Op::Get, number)], now);
            let [(_, Ok(found))] = done[..] else {
                panic!("a read of {} is not answered: {done:?}", key(number));
            };
            let claim = live.node.claim(range);
            let read = self.keys[number].read(found, (claim.epoch, claim.node));
            read.unwrap_or_else(|wrong| panic!("{}: {wrong}", key(number)));
        }
    }
}
