//! Commands on their way to other nodes, and from them.

use super::super::road::Road;
use super::super::ticket::Ticket;
use super::came::AllThatCame;
use super::effects::{Effects, Unanswered};
use rhythm_net::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What a command costs beside its bytes, where it is and where it goes.
pub(super) const COST: usize = 128;

#[derive(Debug)]
pub(super) struct Forward {
    pub(super) ticket: Ticket,
    pub(super) road: Road,
    pub(super) command: Vec<u8>,
    /// What it costs as long as it is not answered.
    cost: usize,
    /// None: it waits.
    pub(super) sent: Option<Sent>,
    /// It was, and not executed there.
    pub(super) came_back: bool,
    pub(super) came: Time,
    pub(super) again_at: Time,
}

impl Forward {
    /// One that waits.
    pub(super) fn new(ticket: Ticket, road: Road, command: Vec<u8>, now: Time) -> Forward {
        Forward {
            ticket,
            road,
            cost: command.len() + COST,
            command,
            sent: None,
            came_back: false,
            came: now,
            again_at: now,
        }
    }
}

/// Where a command was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The node.
    pub(super) to: usize,
    /// The place of the frame on the link to it.
    pub(super) place: u64,
}

/// Those that are not answered.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    pub(super) all: BTreeMap<u64, Forward>,
    /// Of these, those that wait, in their order, by the road they take: however many come back
    /// from a node at once, each finds its place among those that came later.
    held: BTreeMap<Road, BTreeSet<u64>>,
    /// What these cost, whether their clients are still there or not.
    held_cost: usize,
    /// Of each road, how many were sent where: others go there, or wait until these are answered
    /// or refused.
    pub(super) sent: BTreeMap<Road, (usize, usize)>,
    /// Of each node, what those cost that were sent there: it has to keep them until it can answer.
    under_way: BTreeMap<usize, usize>,
    pub(super) last: u64,
    /// Of other nodes' clients: what waits for room.
    pub(super) came: AllThatCame,
    /// Bytes of the commands that are executed here, and of their answers, since the node's time
    /// last came.
    pub(super) executed: usize,
}

impl Forwards {
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty() || !self.came.is_empty()
    }

    /// The roads of those that wait.
    pub(super) fn roads(&self) -> Vec<Road> {
        self.held.keys().copied().collect()
    }

    /// The ranges of those that wait, a bit each.
    pub(super) fn held_ranges(&self) -> u64 {
        let roads = self.held.keys();
        roads.fold(0, |ranges, road| ranges | 1 << road.range)
    }

    /// The first that waits to take a road.
    pub(super) fn first(&self, road: Road) -> Option<u64> {
        self.held.get(&road)?.first().copied()
    }

    /// What those cost that wait.
    pub(super) fn held_cost(&self) -> usize {
        self.held_cost
    }

    /// A client sent one: it waits, behind all others.
    pub(super) fn add(&mut self, forward: Forward) {
        self.last += 1;
        self.hold(forward.road, self.last);
        self.held_cost += forward.cost;
        self.all.insert(self.last, forward);
    }

    /// One that waits has waited for too long.
    pub(super) fn give_up(&mut self, number: u64, out: &mut Effects) {
        if let Some(forward) = self.all.remove(&number) {
            self.returned(&forward);
            out.answers.push((forward.ticket, Err(Unanswered::NotDone)));
        }
    }

    /// That one waits no more.
    pub(super) fn take_first(&mut self, road: Road) {
        if let Some(held) = self.held.get_mut(&road) {
            held.pop_first();
            if held.is_empty() {
                self.held.remove(&road);
            }
        }
    }

    /// A command waits, in front of those that came later.
    fn hold(&mut self, road: Road, number: u64) {
        self.held.entry(road).or_default().insert(number);
    }

    /// What those cost that a node was sent, and has not answered.
    pub(super) fn under_way(&self, node: usize) -> usize {
        self.under_way.get(&node).copied().unwrap_or(0)
    }

    /// A command goes to a node.
    pub(super) fn goes(&mut self, number: u64, sent: Sent) {
        if let Some(forward) = self.all.get_mut(&number) {
            forward.sent = Some(sent);
            self.sent.entry(forward.road).or_insert((sent.to, 0)).1 += 1;
            self.held_cost -= forward.cost;
            *self.under_way.entry(sent.to).or_default() += forward.cost;
        }
    }

    /// Whether all are answered, and none came that is not taken on.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.came.is_empty()
    }

    pub(super) fn answered(&mut self, number: u64, answer: &[u8], out: &mut Effects) {
        if let Some(forward) = self.all.remove(&number) {
            self.returned(&forward);
            out.answers.push((forward.ticket, Ok(answer.to_vec())));
        }
    }

    /// Nobody knows what becomes of what it wrote.
    pub(super) fn unknown(&mut self, number: u64, out: &mut Effects) {
        if let Some(forward) = self.all.remove(&number) {
            self.returned(&forward);
            out.answers.push((forward.ticket, Err(Unanswered::Unknown)));
        }
    }

    pub(super) fn refused(&mut self, number: u64) {
        if let Some(mut forward) = self.all.remove(&number) {
            if forward.sent.is_some() {
                self.returned(&forward);
                // Who serves the range can answer it, whoever reads it.
                forward.road.reads = false;
                forward.sent = None;
                forward.came_back = true;
                self.held_cost += forward.cost;
                self.hold(forward.road, number);
            }
            self.all.insert(number, forward);
        }
    }

    /// One is answered or refused, or nobody knows.
    fn returned(&mut self, forward: &Forward) {
        let Some(Sent { to, .. }) = forward.sent else {
            self.held_cost -= forward.cost;
            return;
        };
        if let Some((_, count)) = self.sent.get_mut(&forward.road) {
            *count -= 1;
            if *count == 0 {
                self.sent.remove(&forward.road);
            }
        }
        if let Some(cost) = self.under_way.get_mut(&to) {
            *cost -= forward.cost;
            if *cost == 0 {
                self.under_way.remove(&to);
            }
        }
    }

    /// A node left that had all frames up to this place: what was in others waits again.
    pub(super) fn retract(&mut self, node: usize, ack: u64) {
        let missed = |forward: &Forward| {
            (forward.sent).is_some_and(|sent| sent.to == node && sent.place > ack)
        };
        let all = self.all.iter();
        let missed = all.filter(|(_, forward)| missed(forward));
        let missed: Vec<u64> = missed.map(|(number, _)| *number).collect();
        missed.into_iter().for_each(|number| self.refused(number));
    }

    /// What was sent to a node that is gone is not answered.
    pub(super) fn lose(&mut self, node: usize, out: &mut Effects) {
        self.sent.retain(|_, (to, _)| *to != node);
        self.under_way.remove(&node);
        self.all.retain(|_, forward| {
            let is_lost = forward.sent.is_some_and(|sent| sent.to == node);
            if is_lost {
                out.answers.push((forward.ticket, Err(Unanswered::Unknown)));
            }
            !is_lost
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many wait behind them.
    #[test]
    fn what_a_node_that_left_did_not_have_waits_again_in_front_of_what_came_later() {
        const SENT: u64 = 40_000;
        let mut forwards = Forwards::default();
        let roads = [true, false].map(|reads| Road { range: 0, reads });
        for number in 1..=2 * SENT {
            let ticket = Ticket { worker: 0, number };
            let road = roads[usize::from(number.is_multiple_of(4))];
            forwards.add(Forward::new(ticket, road, Vec::new(), Time::ZERO));
        }
        for number in 1..=SENT {
            let road = roads[usize::from(number.is_multiple_of(4))];
            assert_eq!(forwards.first(road), Some(number));
            forwards.take_first(road);
            let place = number;
            forwards.goes(number, Sent { to: 1, place });
        }
        forwards.retract(1, SENT / 2);
        // What was to be read there is for who serves the range.
        let server = roads[1];
        let mut again = Vec::new();
        while let Some(number) = forwards.first(server) {
            forwards.take_first(server);
            again.push(number);
        }
        let later = (SENT + 1..=2 * SENT).filter(|number| number.is_multiple_of(4));
        let expected: Vec<u64> = (SENT / 2 + 1..=SENT).chain(later).collect();
        assert!(again == expected, "{} of {}", again.len(), expected.len());
    }

    #[test]
    fn what_waits_is_counted_until_it_goes_or_is_given_up() {
        let (mut forwards, mut out) = (Forwards::default(), Effects::default());
        let (road, now) = (Road::to_server(0), Time::ZERO);
        for number in 1..=3 {
            let ticket = Ticket { worker: 0, number };
            forwards.add(Forward::new(ticket, road, vec![b'x'; 1000], now));
        }
        let one = 1000 + COST;
        assert_eq!(forwards.held_cost(), 3 * one);
        for number in 1..=2 {
            forwards.goes(
                number,
                Sent {
                    to: 1,
                    place: number,
                },
            );
        }
        assert_eq!(
            (forwards.held_cost(), forwards.under_way(1)),
            (one, 2 * one)
        );
        forwards.refused(1);
        assert_eq!(
            (forwards.held_cost(), forwards.under_way(1)),
            (2 * one, one)
        );
        forwards.give_up(1, &mut out);
        forwards.answered(2, b"", &mut out);
        assert_eq!((forwards.held_cost(), forwards.under_way(1)), (one, 0));
        forwards.goes(3, Sent { to: 1, place: 3 });
        forwards.lose(1, &mut out);
        assert_eq!((forwards.held_cost(), forwards.under_way(1)), (0, 0));
        assert!(forwards.is_empty() && out.answers.len() == 3);
    }
}
