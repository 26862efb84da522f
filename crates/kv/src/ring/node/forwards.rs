//! Commands on their way to other nodes, and from them.

use super::super::road::Road;
use super::super::wire::Of;
use super::effects::{Effects, Ticket};
use rhythm_net::Time;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(super) struct Forward {
    pub(super) ticket: Ticket,
    pub(super) road: Road,
    pub(super) command: Vec<u8>,
    /// The node that it was sent to, and the place of the frame on the link to it; none: it waits.
    pub(super) sent_to: Option<(usize, u64)>,
    pub(super) came: Time,
    pub(super) again_at: Time,
}

/// A command that came from another node.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) of: Of,
    /// It only reads, and who reads the range may execute it.
    pub(super) reads: bool,
    pub(super) from: usize,
    pub(super) losses: u64,
    pub(super) number: u64,
    pub(super) command: Vec<u8>,
}

/// Those that are not answered.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    pub(super) all: BTreeMap<u64, Forward>,
    /// Of these, those that wait.
    pub(super) held: VecDeque<u64>,
    /// Of each road, how many were sent where: others go there, or wait until these are answered
    /// or refused.
    pub(super) sent: BTreeMap<Road, (usize, usize)>,
    pub(super) last: u64,
    /// Of other nodes' clients: what waits for room.
    pub(super) came: VecDeque<Came>,
}

impl Forwards {
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty() || !self.came.is_empty()
    }

    /// Whether all are answered, and none came that is not taken on.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.came.is_empty()
    }

    pub(super) fn answered(&mut self, number: u64, answer: &[u8], out: &mut Effects) {
        if let Some(forward) = self.all.remove(&number) {
            self.returned(forward.road);
            out.answers.push((forward.ticket, Some(answer.to_vec())));
        }
    }

    /// Nobody knows what becomes of what it wrote.
    pub(super) fn unknown(&mut self, number: u64, out: &mut Effects) {
        if let Some(forward) = self.all.remove(&number) {
            self.returned(forward.road);
            out.answers.push((forward.ticket, None));
        }
    }

    pub(super) fn refused(&mut self, number: u64) {
        if let Some(forward) = self.all.get_mut(&number)
            && forward.sent_to.take().is_some()
        {
            let road = forward.road;
            // Who serves the range can answer it, whoever reads it.
            forward.road.reads = false;
            // In front of those that came later.
            let behind = self.held.partition_point(|other| *other < number);
            self.held.insert(behind, number);
            self.returned(road);
        }
    }

    /// One that was sent is answered or refused, or nobody knows.
    fn returned(&mut self, road: Road) {
        if let Some((_, count)) = self.sent.get_mut(&road) {
            *count -= 1;
            if *count == 0 {
                self.sent.remove(&road);
            }
        }
    }

    /// A node left that had all frames up to this place: what was in others waits again.
    pub(super) fn retract(&mut self, node: usize, ack: u64) {
        let missed = |forward: &Forward| {
            (forward.sent_to).is_some_and(|(to, place)| to == node && place > ack)
        };
        let all = self.all.iter();
        let missed = all.filter(|(_, forward)| missed(forward));
        let missed: Vec<u64> = missed.map(|(number, _)| *number).collect();
        missed.into_iter().for_each(|number| self.refused(number));
    }

    /// What was sent to a node that is gone is not answered.
    pub(super) fn lose(&mut self, node: usize, out: &mut Effects) {
        self.sent.retain(|_, (to, _)| *to != node);
        self.all.retain(|_, forward| {
            let is_lost = forward.sent_to.is_some_and(|(to, _)| to == node);
            if is_lost {
                out.answers.push((forward.ticket, None));
            }
            !is_lost
        });
    }
}
