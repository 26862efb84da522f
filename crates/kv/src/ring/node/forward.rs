//! Commands about keys that another node serves: they go there, and their answers come back.
//!
//! A command is sent once. Where the other does not serve the range (any more) it says so, and the
//! command waits until it is known who does. If the other dies before it answers, nobody knows
//! whether it was executed, and the client is told that.

use super::super::local::Local;
use super::super::road::Road;
use super::super::wire::{Message, Of, Stay};
use super::super::written::Written;
use super::effects::{Effects, Execute, Origin, Ticket};
use super::forwards::{Came, Forward};
use super::{Node, Waiter};
use rhythm_net::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// A command that was refused is sent again no sooner than this.
const AGAIN: Duration = Duration::from_millis(2);

impl Node {
    /// A client of this node sent a command that takes this road. Its answer comes under the
    /// ticket.
    pub fn forward(
        &mut self,
        ticket: Ticket,
        road: Road,
        command: Vec<u8>,
        now: Time,
        out: &mut Effects,
    ) {
        self.forwards.last += 1;
        let forward = Forward {
            ticket,
            road,
            command,
            sent_to: None,
            came: now,
            again_at: now,
        };
        let number = self.forwards.last;
        self.forwards.all.insert(number, forward);
        // Behind those that wait for the same.
        self.forwards.held.push_back(number);
        self.dispatch_all(now, out);
    }

    /// Sends those that wait to where they are executed, if that is known.
    pub(super) fn dispatch_all(&mut self, now: Time, out: &mut Effects) {
        let mut blocked = BTreeSet::new();
        for _ in 0..self.forwards.held.len() {
            if let Some(number) = self.forwards.held.pop_front()
                && let Some(road) = self.dispatch(number, &blocked, now, out)
            {
                // Those behind it keep their order.
                blocked.insert(road);
                self.forwards.held.push_back(number);
            }
        }
    }

    /// Who is to execute what takes a road, if that is known.
    fn end_of(&self, road: Road) -> Option<usize> {
        let tail = self.tail(road.range).filter(|_| road.reads);
        let may = |tail: &usize| match *tail == self.me {
            true => self.reads_now(road.range),
            false => self.is_alive(*tail),
        };
        tail.filter(may).or_else(|| self.view.route(road.range))
    }

    /// Sends one, unless it has to wait; then tells its road.
    fn dispatch(
        &mut self,
        number: u64,
        blocked: &BTreeSet<Road>,
        now: Time,
        out: &mut Effects,
    ) -> Option<Road> {
        let forward = self.forwards.all.get(&number)?;
        let road = forward.road;
        let end = self.end_of(road);
        let serves = self.view.route(road.range) == Some(self.me);
        let forward = self.forwards.all.get_mut(&number)?;
        let waited = now.since(forward.came.max(self.looks_since));
        if waited >= self.options.patience {
            out.answers.push((forward.ticket, None));
            self.forwards.all.remove(&number);
            return None;
        }
        let may = forward.again_at <= now && !blocked.contains(&road);
        let sent = self.forwards.sent.get(&road);
        let may = may && sent.is_none_or(|(to, _)| Some(*to) == end);
        let mut send = |to: usize, place: u64| {
            let sent = self.forwards.sent.entry(road);
            sent.or_insert((to, 0)).1 += 1;
            forward.sent_to = Some((to, place));
        };
        match end.filter(|_| may) {
            Some(node) if node == self.me => {
                send(node, 0);
                let origin = Origin::Here(number);
                let command = std::mem::take(&mut forward.command);
                out.executes.push(Execute {
                    origin,
                    shows: (self.options.scheme.is_chain() && serves).then_some(road.range),
                    command,
                });
            }
            Some(node) if self.peers[node].link.held() <= self.options.queue_max => {
                let link = &mut self.peers[node].link;
                send(node, link.next_place());
                forward.again_at = now + AGAIN;
                let of = Of {
                    range: road.range as u8,
                    epoch: self.claims[road.range].epoch,
                };
                let message = match road.reads {
                    true => Message::Read(of, number, &forward.command),
                    false => Message::Forward(of, number, &forward.command),
                };
                link.write(|out| message.write(out));
            }
            _ => return Some(road),
        }
        None
    }

    /// Another node sent a command.
    pub(super) fn forwarded(
        &mut self,
        from: usize,
        (of, reads): (Of, bool),
        number: u64,
        command: &[u8],
        out: &mut Effects,
    ) {
        let losses = self.peers[from].losses;
        let command = command.to_vec();
        self.forwards.came.push_back(Came {
            of,
            reads,
            from,
            losses,
            number,
            command,
        });
        self.take_on(out);
    }

    /// Takes on what other nodes sent, as long as they take the answers, and the targets what is
    /// written.
    pub(super) fn take_on(&mut self, out: &mut Effects) {
        let most = self.options.queue_max;
        while let Some(came) = self.forwards.came.front()
            && self.peers[came.from].link.held() <= most
            && !self.view.is_full()
            && !self.is_undecided(came.of)
            && let Some(came) = self.forwards.came.pop_front()
        {
            if self.peers[came.from].losses == came.losses {
                self.take(came, out);
            }
        }
    }

    /// Whether it is not said yet who will serve a range: this node hands it over, and may not come
    /// to an end with it. Were commands refused now, others of the same order might not be later.
    fn is_undecided(&self, of: Of) -> bool {
        let range = usize::from(of.range);
        range < self.ranges() && self.handing[range].is_some() && of == self.of(range)
    }

    fn take(&mut self, came: Came, out: &mut Effects) {
        let Came {
            of,
            reads,
            from,
            losses,
            number,
            command,
        } = came;
        let range = usize::from(of.range);
        // Under the claim that it was sent under: commands that were sent in one order are all
        // executed, or all refused. Who said that it is gone has said what it got.
        let is_known = self.stay() != Stay::Gone && range < self.ranges() && of == self.of(range);
        let serves = is_known && self.view.route(range) == Some(self.me);
        let reads = is_known && reads && !serves && self.reads_now(range);
        if !serves && !reads {
            let link = &mut self.peers[from].link;
            return link.write(|out| Message::Refused(number).write(out));
        }
        let origin = Origin::There {
            node: from,
            losses,
            number,
        };
        out.executes.push(Execute {
            origin,
            shows: (self.options.scheme.is_chain() && serves).then_some(range),
            command,
        });
    }

    /// A command was executed, with this answer, and wrote this.
    pub fn executed(
        &mut self,
        execute: &Execute,
        answer: Vec<u8>,
        written: &Written,
        local: &Local<'_, '_>,
        out: &mut Effects,
    ) {
        let (batch, ranges) = self.replicate(written, local);
        match self.options.acked && (execute.shows.is_some() || !written.is_empty()) {
            true => {
                let ranges = execute.shows.map_or(ranges, |range| ranges | 1 << range);
                let waiter = Waiter::Answer(execute.origin, answer);
                self.await_copies(batch, ranges, waiter);
            }
            false => self.answer(execute.origin, answer, out),
        }
    }

    /// Nobody knows what becomes of what a command wrote.
    pub(super) fn lose_answer(&mut self, origin: Origin, out: &mut Effects) {
        match origin {
            Origin::Here(number) => self.forwards.unknown(number, out),
            Origin::There {
                node,
                losses,
                number,
            } => self.reply(node, losses, Message::Unknown(number)),
        }
    }

    /// Answers another node, if it is the one that asked.
    fn reply(&mut self, node: usize, losses: u64, message: Message<'_>) {
        let peer = &mut self.peers[node];
        if peer.losses == losses && peer.session != 0 {
            peer.link.write(|out| message.write(out));
        }
    }

    pub(super) fn answer(&mut self, origin: Origin, answer: Vec<u8>, out: &mut Effects) {
        match origin {
            Origin::Here(number) => self.forwards.answered(number, &answer, out),
            Origin::There {
                node,
                losses,
                number,
            } => self.reply(node, losses, Message::Answer(number, &answer)),
        }
    }
}
