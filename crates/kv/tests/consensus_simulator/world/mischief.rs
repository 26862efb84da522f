//! What becomes of nodes and of the network between them.

use super::{Event, Replacement, World};
use crate::disk::SimDisk;
use rhythm_kv::consensus::{Node, OpenError, Status};
use std::cmp::Reverse;
use std::time::Duration;

/// How long a node that was told to end waits at most until another leads and all are answered.
const LEFT_WITHIN: Duration = Duration::from_secs(2);
/// How often it is looked whether it may.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often who replaces a node looks whether he can go on.
const REPLACE_EVERY: Duration = Duration::from_millis(300);

impl World {
    pub(super) fn trouble(&mut self) {
        if !self.has_trouble {
            return;
        }
        let nodes = self.seats.len() as u64;
        let at = self.random.below(nodes) as usize;
        match self.random.below(13) {
            // Dies now, or in the midst of what it writes next.
            0 if self.seats[at].node.is_some() => self.die(at),
            1..4 => {
                let operations = self.random.below(6);
                self.seats[at].disk.die_in(operations);
            }
            4 | 5 => {
                let wait = self.millis(100, 4000);
                self.seats[at].still_until = self.now + wait;
            }
            // Two sides, or one that only hears, or is only heard.
            6..8 => {
                let until = self.now + self.millis(300, 6000);
                let (ways, side) = (self.random.below(3), self.random.below(1 << nodes));
                for from in 0..nodes as usize {
                    for to in 0..nodes as usize {
                        let (here, there) = (side >> from & 1, side >> to & 1);
                        if here != there && (ways == 0 || here == ways - 1) {
                            self.deaf.insert((from, to), until);
                        }
                    }
                }
            }
            8 => {
                let [has_none_beside, is_full] = [50; 2].map(|of| self.random.percent(of));
                self.seats[at].disk.set_full(has_none_beside, is_full);
                let wait = self.millis(500, 7000);
                self.after(wait, Event::DiskWell { node: at });
            }
            9 => self.leave(at),
            10 => self.replace(at),
            11 => self.seats[at].disk.fail_sync(),
            12 => self.rot(at),
            _ => {}
        }
        let wait = self.millis(100, 1500);
        self.after(wait, Event::Trouble);
    }

    /// A node is told to end.
    pub(super) fn leave(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        if let Some(node) = &mut seat.node
            && seat.leaves.is_none()
        {
            node.leave();
            seat.leaves = Some(self.now);
            let life = seat.life;
            self.after(LOOK_EVERY, Event::Leave { node: at, life });
            self.flush(at);
        }
    }

    /// A node that was told to end does so, if it may.
    pub(super) fn end(&mut self, at: usize, life: u64) {
        let seat = &mut self.seats[at];
        let Some((node, since)) = seat.node.as_ref().zip(seat.leaves) else {
            return;
        };
        if seat.life != life {
            return;
        }
        let has_left = node.is_done() && !node.leads();
        if !has_left && self.now.since(since) < LEFT_WITHIN {
            return self.after(LOOK_EVERY, Event::Leave { node: at, life });
        }
        self.counts.left += u64::from(has_left);
        self.stop(at);
    }

    /// A node's machine dies, and what is on its disk is damaged: where it matters the node does
    /// not start, and another takes its place.
    fn rot(&mut self, at: usize) {
        if self.replacement.is_some() || self.seats.len() < 3 {
            return;
        }
        if self.seats[at].node.is_some() {
            self.die(at);
        }
        let journal = self.seats[at].disk.rot(&mut self.random);
        let options = self.options(at);
        match Node::open(options, SimDisk::default(), &journal, self.now) {
            Err(OpenError::Damaged(_) | OpenError::OfAnother) => {
                self.counts.damaged += 1;
                self.replace(at);
            }
            Err(error) => panic!("node {at}: {error}"),
            // It was what fills a block.
            Ok(_) => {}
        }
    }

    /// A node's machine is gone, and another is to take its place, as the documentation says.
    fn replace(&mut self, at: usize) {
        if self.replacement.is_some() || self.seats.len() < 3 {
            return;
        }
        if self.seats[at].node.is_some() {
            self.die(at);
        }
        self.replacement = Some(Replacement {
            node: at,
            term: None,
        });
        self.after(REPLACE_EVERY, Event::Replace);
    }

    /// The next step of that.
    pub(super) fn replace_on(&mut self) {
        let Some(Replacement { node: gone, term }) = self.replacement else {
            return;
        };
        self.after(REPLACE_EVERY, Event::Replace);
        let others = self.seats.iter_mut().enumerate();
        let others = others.filter(|(at, _)| *at != gone);
        let statuses: Option<Vec<_>> = others
            .map(|(at, seat)| {
                let is_there = seat.still_until <= self.now && seat.leaves.is_none();
                let node = seat.node.as_mut().filter(|_| is_there)?;
                Some((at, node.status()))
            })
            .collect();
        let Some(statuses) = statuses else {
            return;
        };
        let Some(&(leader, _)) = statuses.iter().find(|(_, status)| status.leads) else {
            return;
        };
        let (told, mut tell) = (|at: &Status| (at.leader, at.term), statuses.iter());
        let agrees = tell.all(|(_, status)| told(status) == told(&statuses[0].1));
        let last = statuses.iter().map(|(_, status)| status.term).max();
        match (term, last) {
            // All others are there, and agree on who leads: it is started anew.
            (None, Some(last)) if agrees => {
                self.replacement = Some(Replacement {
                    node: gone,
                    term: Some(last),
                });
                self.leave(leader);
                self.clients.unconfirm();
            }
            (Some(before), Some(_)) if self.clients.is_confirmed() => {
                debug_assert!(statuses.iter().any(|(_, status)| status.term > before));
                self.replacement = None;
                self.seats[gone].disk.lose();
                // Connections are others: nothing comes that was for the one before.
                let is_for_it =
                    |event: &Event| matches!(event, Event::Frame { to, .. } if *to == gone);
                (self.events).retain(|Reverse((_, _, event))| !is_for_it(event));
                // So is the clock, which may be another one.
                self.seats[gone].behind = if self.random.percent(50) { 60 } else { 0 };
                self.counts.replaced += 1;
                self.start(gone);
            }
            // Another leads, in a later term than the one that is gone can have known of.
            (Some(before), Some(now)) if now > before => {
                let at = statuses.iter().find(|(_, status)| status.term > before);
                if let Some(&(at, _)) = at {
                    let (ticket, request) = self.clients.confirm(at);
                    if let Some(node) = &mut self.seats[at].node {
                        node.ask(ticket, request, self.now);
                    }
                    self.flush(at);
                }
            }
            _ => {}
        }
    }
}
