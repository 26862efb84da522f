//! Commands about keys that another node serves: they go there, and their answers come back.
//!
//! A command is sent once. Where the other does not serve the range (any more) it says so, and the
//! command waits until it is known who does. If the other dies before it answers, nobody knows
//! whether it was executed, and the client is told that.

use super::super::local::Local;
use super::super::road::Road;
use super::super::ticket::Ticket;
use super::super::wire::{Message, Of, Stay};
use super::super::written::Written;
use super::came::Came;
use super::effects::{Effects, Execute, Origin};
use super::forwards::{COST, Forward, Sent};
use super::{Node, Waiter};
use rhythm_net::Time;
use std::time::Duration;

/// A command that was refused is sent again no sooner than this.
const AGAIN: Duration = Duration::from_millis(2);
/// How much less time may have passed by another node's clock than by this one's while a command
/// waits as long as it may.
const SLACK: Duration = Duration::from_millis(10);
/// Bytes of commands, and of their answers, that are executed here for clients of other nodes
/// before others hear of this node again, and it of them: less than 20 ms of short ones. Those of
/// its own clients, which come first, take half as much.
const TURN: usize = 1 << 20;

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
        self.look(now);
        let forward = Forward::new(ticket, road, command, now);
        self.forwards.add(forward);
        match road == Road::HERE {
            true => self.execute_here(out),
            false => self.dispatch_road(road, now, out),
        }
    }

    /// Has the last command that a client sent executed here, whoever serves what.
    fn execute_here(&mut self, out: &mut Effects) {
        let number = self.forwards.last;
        self.forwards.take_first(Road::HERE);
        let Some(forward) = self.forwards.all.get_mut(&number) else {
            return;
        };
        let command = std::mem::take(&mut forward.command);
        let to = self.me;
        self.forwards.goes(number, Sent { to, place: 0 });
        let (origin, shows) = (Origin::Here(number), None);
        out.executes.push(Execute {
            origin,
            shows,
            command,
        });
    }

    /// Sends those that wait to where they are executed, if that is known.
    pub(super) fn dispatch_all(&mut self, now: Time, out: &mut Effects) {
        for road in self.forwards.roads() {
            self.dispatch_road(road, now, out);
        }
    }

    /// Sends those that wait to take a road, up to one that has to wait on: those behind it keep
    /// their order. So what a command costs does not grow with how many wait.
    fn dispatch_road(&mut self, road: Road, now: Time, out: &mut Effects) {
        while let Some(number) = self.forwards.first(road)
            && self.dispatch(number, now, out)
        {
            self.forwards.take_first(road);
        }
    }

    /// Who is to execute what takes a road, if that is known.
    fn end_of(&self, road: Road) -> Option<usize> {
        let tail = self.tail(road.range).filter(|_| road.reads);
        let may = |tail: &usize| match *tail == self.me {
            true => self.reads_now(road.range),
            false => self.is_alive(*tail),
        };
        let server = || match self.is_in_doubt(road.range) {
            true => None,
            false => self.view.route(road.range),
        };
        tail.filter(may).or_else(server)
    }

    /// Whether this node serves a range as far as it knows, and another may by now.
    fn is_in_doubt(&self, range: usize) -> bool {
        let is_here = self.view.route(range) == Some(self.me);
        is_here && self.view.is_elsewhere(range, || self.looked_at)
    }

    /// Whether a node takes commands: what it has not answered it has to keep, acknowledged or not.
    fn takes(&self, node: usize) -> bool {
        let most = self.options.queue_max;
        self.peers[node].link.held() <= most && self.forwards.under_way(node) <= most
    }

    /// The ranges whose commands are to wait with their clients, a bit each. From `queue_max` on
    /// those of whose commands some wait here, or would: others go on. Beyond twice as much, which
    /// takes one range after the other that turns ill, all of them: so much is all that waits.
    pub(super) fn crowded(&self) -> u64 {
        let (held, most) = (self.forwards.held_cost(), self.options.queue_max);
        if held <= most {
            return 0;
        }
        if held > 2 * most {
            return u64::MAX;
        }
        let would_wait = |range: &usize| match self.end_of(Road::to_server(*range)) {
            Some(node) => node != self.me && !self.takes(node),
            None => true,
        };
        let held = self.forwards.held_ranges();
        let ill = (0..self.ranges()).filter(would_wait);
        ill.fold(held, |ranges, range| ranges | 1 << range)
    }

    /// Sends one, unless it has to wait: then it is false.
    fn dispatch(&mut self, number: u64, now: Time, out: &mut Effects) -> bool {
        let Some(forward) = self.forwards.all.get(&number) else {
            return true;
        };
        let road = forward.road;
        let end = self.end_of(road);
        let serves = self.view.route(road.range) == Some(self.me);
        let takes = end.is_some_and(|node| self.takes(node));
        let Some(forward) = self.forwards.all.get_mut(&number) else {
            return true;
        };
        // What came back late is not sent again: those behind it may be executed by now.
        let since = match forward.came_back {
            true => forward.came,
            false => forward.came.max(self.looks_since),
        };
        let waited = now.since(since);
        if waited >= self.options.patience {
            self.forwards.give_up(number, out);
            return true;
        }
        let sent = self.forwards.sent.get(&road);
        let may = forward.again_at <= now && sent.is_none_or(|(to, _)| Some(*to) == end);
        match end.filter(|_| may) {
            Some(node) if node == self.me => {
                if self.forwards.executed >= TURN / 2 {
                    return false;
                }
                let origin = Origin::Here(number);
                let command = std::mem::take(&mut forward.command);
                let to = node;
                self.forwards.executed += command.len() + COST;
                self.forwards.goes(number, Sent { to, place: 0 });
                out.executes.push(Execute {
                    origin,
                    shows: (self.options.scheme.is_chain() && serves).then_some(road.range),
                    command,
                });
            }
            Some(node) if takes => {
                let (to, link) = (node, &mut self.peers[node].link);
                let place = link.next_place();
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
                self.forwards.goes(number, Sent { to, place });
            }
            _ => return false,
        }
        true
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
        let at = self.looked_at;
        self.forwards.came.add(Came {
            of,
            reads,
            from,
            losses,
            number,
            command,
            at,
        });
        self.take_on(out);
    }

    /// The node's time has come: what waits goes on, as far as it may.
    pub(super) fn go_on(&mut self, now: Time, out: &mut Effects) {
        self.dispatch_all(now, out);
        self.refuse_late(now);
        self.take_on(out);
    }

    /// Gives those back to whoever sent them that waited for too long until it is said who serves
    /// their range: nothing of them was done. He sees that they waited for longer yet, and does not
    /// send them again, but tells his clients. Of each order the first go, and what stays may be
    /// executed, as none comes behind it that was before it.
    fn refuse_late(&mut self, now: Time) {
        let patience = self.options.patience + SLACK;
        let mut all = std::mem::take(&mut self.forwards.came);
        let late =
            all.take_first(|came| now.since(came.at) >= patience && self.is_undecided(came.of));
        self.forwards.came = all;
        for came in late {
            self.reply(came.from, came.losses, Message::Refused(came.number));
        }
    }

    /// Takes on what other nodes sent, as long as they take the answers, and the targets what is
    /// written: one command after the other, since nobody knows how long an answer is before it
    /// is there. What is too much for one turn waits for the next.
    pub(super) fn take_on(&mut self, out: &mut Effects) {
        let mut all = std::mem::take(&mut self.forwards.came);
        while out.executes.is_empty()
            && self.forwards.executed < TURN
            && self.answers_held <= self.options.queue_max
            && let Some(came) = all.take(|came| self.may_take_on(came))
        {
            if self.peers[came.from].losses == came.losses {
                self.take(came, out);
            }
        }
        self.forwards.came = all;
    }

    /// Whether there is room for a command, and it is said who serves its range; or nobody waits
    /// for it any more.
    fn may_take_on(&self, came: &Came) -> bool {
        let peer = &self.peers[came.from];
        let has_room = || peer.link.held() <= self.options.queue_max && self.has_room(came.of);
        peer.losses != came.losses || has_room() && !self.is_undecided(came.of)
    }

    /// Whether the targets of a range take what is written of it.
    fn has_room(&self, of: Of) -> bool {
        let range = usize::from(of.range);
        range >= self.ranges() || self.view.full_of_copies() & 1 << range == 0
    }

    /// Whether it is not said yet who will serve a range: this node hands it over, and may not come
    /// to an end with it, or another may serve it by now. Were commands refused now, others of the
    /// same order might not be later.
    fn is_undecided(&self, of: Of) -> bool {
        let range = usize::from(of.range);
        range < self.ranges()
            && self.is_of(of)
            && (self.handing[range].is_some() || self.is_in_doubt(range))
    }

    fn take(&mut self, came: Came, out: &mut Effects) {
        let Came {
            of,
            reads,
            from,
            losses,
            number,
            command,
            at: _,
        } = came;
        let range = usize::from(of.range);
        // Under the claim that it was sent under: commands that were sent in one order are all
        // executed, or all refused. Who said that it is gone has said what it got.
        let is_known = self.stay() != Stay::Gone && range < self.ranges() && self.is_of(of);
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
        self.forwards.executed += command.len() + COST;
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
        self.forwards.executed += answer.len();
        let (batch, ranges) = self.replicate(written, local);
        let has_written = !written.is_empty() && !written.answers_at_once();
        let is_acked = self.options.acked && (execute.shows.is_some() || has_written);
        // That all items are gone is said when they are, whatever is said of writes.
        match is_acked || written.flushed() {
            true => {
                let ranges = execute.shows.map_or(ranges, |range| ranges | 1 << range);
                self.answers_held += answer.len();
                let waiter = Waiter::Answer(execute.origin, answer);
                let behind = execute.shows.map_or_else(Vec::new, |_| self.not_taken());
                self.await_copies(batch, ranges, behind, waiter);
                if let Some(waiting) = self.waiting.back_mut() {
                    waiting.flushes = written.flushed();
                }
            }
            false => self.answer(execute.origin, answer, out),
        }
        self.take_on(out);
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
