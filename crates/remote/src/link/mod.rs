//! The way of a worker to its nodes: cohorts go to the one that has least to do, and what no node
//! runs is run here.
//!
//! ```text
//!    submit --> a node that takes it --> away --answer--> done
//!      |                                   | lost, late, declined
//!      |  no node has the service          v
//!      +------------------------------> again: another node, once; or here --> done
//! ```
//!
//! A node gives back what it has done in one go, so that others have their turn: the stage's other
//! lanes are sent again, in another work. Those that found no room for their answers here are run
//! here, so that nothing is run there twice; but of a stage that nodes were seen to leave lanes of,
//! the two are not told apart, and they are sent, too.
//!
//! A work stays here, untouched, until its answer has come whole and was checked: a stage is a
//! function of its cohort, so it can be run again, and nothing is lost or done twice. So that a
//! node that ends under a cohort ends no more than two, what was lost twice is run here. So is, for
//! a while, a stage that nodes were late with twice.
//!
//! Works are in works.rs, what nodes say in messages.rs, a connection in node.rs.

mod messages;
mod node;
mod options;
mod works;

#[cfg(test)]
mod tests;

pub use options::LinkOptions;
pub use works::Remote;

use crate::figures::silent_for;
use node::{Node, Phase};
use rhythm_engine::device::{Refusal, Work};
use rhythm_net::{ConnectionId, Ended, Port, Time};
use rhythm_server::{ConnectionOwner, DeviceLink};
use std::sync::Arc;

impl ConnectionOwner for Remote {
    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) -> bool {
        self.writable(port, id, now)
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) -> bool {
        let Some(index) = self.owner(id) else {
            return false;
        };
        self.nodes[index].received(bytes, now);
        self.take_messages(port, index, now);
        true
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) -> bool {
        let Some(index) = self.owner(id) else {
            return false;
        };
        let why = match how {
            Ended::PeerFinished => "it has ended the connection".to_owned(),
            Ended::Failed(kind) => {
                self.nodes[index].connection = None;
                kind.to_string()
            }
        };
        self.lose(port, index, &why, false, now);
        true
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) -> bool {
        let Some(index) = self.owner(id) else {
            return false;
        };
        if !self.nodes[index].writable(port) {
            self.nodes[index].connection = None;
            self.lose(port, index, "its connection is gone", false, now);
        }
        true
    }

    fn wake_at(&self) -> Option<Time> {
        let nodes = self.nodes.iter().map(Node::wake_at);
        let works = self.away.values().map(|away| away.deadline);
        nodes.chain(works).min()
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.follow(port, now);
        let late: Vec<(u64, usize)> = (self.away.iter())
            .filter(|(_, away)| away.deadline <= now)
            .map(|(token, away)| (*token, away.node))
            .collect();
        for (token, index) in late {
            // Each is lost once, over what it was given first.
            if matches!(self.nodes[index].phase, Phase::Used { .. }) {
                self.was_late(token, now);
                let why = silent_for(self.options.timeout);
                self.lose(port, index, &why, false, now);
            }
        }
        for index in 0..self.nodes.len() {
            let looked = match self.nodes[index].phase {
                Phase::Away { until } if until <= now => {
                    self.nodes[index].connect(port, &self.options, now)
                }
                Phase::Away { .. } => Ok(()),
                _ => self.nodes[index].look(port, &self.options, now),
            };
            if let Err(why) = looked {
                self.lose(port, index, &why, false, now);
            }
        }
    }
}

impl DeviceLink for Remote {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn submit(&mut self, port: &mut dyn Port, work: Work, now: Time) -> Result<(), Refusal> {
        self.follow(port, now);
        let known = self.known(&work.service);
        let digests = self.known[known].digests;
        let is_for_nodes =
            work.cohort.has_active() && self.goes_on_there(&work) && !self.stays_here(&work, now);
        let Some((digest, _)) = digests.filter(|_| is_for_nodes) else {
            self.run_here(work);
            return Ok(());
        };
        let service = Arc::clone(&work.service);
        self.offer(port, &service, now);
        let back = match self.node_for(&digest) {
            Some(node) => self.send(port, node, 0, work, now),
            None if self.nodes.iter().any(|node| node.has(&digest)) => {
                return Err(Refusal::Busy(work));
            }
            None => Some(work),
        };
        if let Some(work) = back {
            self.run_here(work);
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        self.run_waiting();
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.away.len() + self.waiting.len() + self.here + self.done.len()
    }
}
