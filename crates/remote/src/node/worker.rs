//! A thread of a node: its connections, and the cohorts that it runs for them.
//!
//! ```text
//!   connection --Work--> its queue --its turn--> columns --> executor --> Done --> connection
//! ```
//!
//! Front ends take turns, a pass of a cohort each, so that they share an executor evenly, whatever
//! each of them sends: lanes that are too many for a pass come back as such, and their front end
//! sends them again. So nothing of a cohort stays here between its turns, and between any two the
//! loop hears everybody. One that does not take what it was answered has no turn meanwhile.
//! What they say is in messages.rs, whose turn it is in turns.rs, what comes of it in works.rs, who
//! goes where memory is short in memory.rs.

use super::connection::{Compiles, Connection};
use super::works::{Command, NodeWorker};
use crate::wire::message::{Message, VERSION};
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Port, Time, Token, Worker};
use rhythm_venice::random;
use std::time::Duration;

/// How long a front end has to show that it may be here.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Handler for NodeWorker {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        let (id, nonce) = (accepted.connection, random::numbers());
        let connection = Connection::new(nonce, now + HELLO_WITHIN);
        self.connections.insert(id, connection);
        let greeting = Message::Greeting {
            version: VERSION,
            nonce,
            has_key: self.guard.wants_key(),
            in_flight: u16::try_from(self.limits.in_flight).unwrap_or(u16::MAX),
        };
        self.say(port, id, greeting);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.input.extend(bytes);
        self.take_messages(port, id, now);
    }

    /// Of those who have not shown yet that they may be here, the one that has had longest to do so
    /// goes: they keep nobody out who can show it at once.
    fn crowded(&mut self, port: &mut dyn Port, _: Time) {
        let unproven = self.connections.iter().filter(|(_, it)| it.nonce.is_some());
        let oldest = unproven.min_by_key(|(_, it)| it.deadline);
        if let Some(id) = oldest.map(|(id, _)| id) {
            self.end(port, id);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, _: Time) {
        self.connections.remove(id);
        // What it held is there for others.
        self.has_more = true;
        if how == Ended::PeerFinished {
            port.close(id);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        if let Some(connection) = self.connections.get_mut(id) {
            if !connection.writable(port, id) {
                self.connections.remove(id);
            }
            self.has_more = true;
        }
    }

    fn notified(&mut self, port: &mut dyn Port, _: Token, now: Time) {
        self.collect(port, now);
        self.has_more = true;
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if self.look_at > now {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let late = self.connections.iter_mut().filter_map(|(id, it)| {
            let is_stuck = it.is_stuck(now);
            (is_stuck || it.deadline <= now).then_some((id, is_stuck))
        });
        for (id, is_stuck) in late.collect::<Vec<_>>() {
            if is_stuck {
                self.refuse("it does not take its answers", now);
            }
            self.end(port, id);
        }
        // What they held is there for others.
        self.ask_for_sources(port, now);
        self.has_more |= !self.turns.is_empty();
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        // One at a time: between two, the loop looks what has come.
        self.has_more = !self.turns.is_empty() && self.run_next(port, now);
    }

    fn wake_at(&self) -> Option<Time> {
        match self.has_more {
            true => Some(Time::ZERO),
            false => Some(self.look_at),
        }
    }
}

impl Worker for NodeWorker {
    type Command = Command;

    fn obey(&mut self, port: &mut dyn Port, command: Command, now: Time) {
        match command {
            Command::Compiled(id, digest, compiled) => {
                if let Some(connection) = self.connections.get_mut(id) {
                    if connection.compiles == Some(Compiles::Given(digest)) {
                        connection.compiles = None;
                    }
                    self.compiled(port, id, digest, compiled, now);
                }
                self.ask_for_sources(port, now);
            }
            Command::Over(loan) => {
                let of_loan = self.connections.iter();
                let of_loan = of_loan.filter(|(_, it)| it.loan == Some(loan));
                let of_loan: Vec<ConnectionId> = of_loan.map(|(id, _)| id).collect();
                of_loan.into_iter().for_each(|id| self.end(port, id));
                // What they held is there for others.
                self.has_more = true;
            }
        }
    }
}
