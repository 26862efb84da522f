//! All clients' connections of a thread: who is there, what each waits for, and how it ends.
//!
//! Requests of a connection are numbered as they are taken ([`Clients::accept`]), and answers go
//! out by these numbers (`turns.rs`, `stream.rs`). An idle connection has no buffer at all.
//!
//! The calls go one way: an answer is *written*, which may *flush* the outbox, which *settles* the
//! connection that it was for (`upkeep.rs`). A connection is looked up when its input is read, for
//! each request in it, when that is done, and when an answer is written and sent: each time once.

pub(crate) mod connection;
pub(crate) mod held;
pub(crate) mod input;
pub(crate) mod outbox;
mod reader;
pub(crate) mod stream;
mod turns;
pub(crate) mod upkeep;

use crate::answer::{AnswerShape, AnswerSlot, Given, HostId, Owed};
use crate::clients::connection::{Connection, Stall, Waiting};
use crate::clients::held::Held;
use crate::clients::input::Input;
use crate::clients::outbox::Outbox;
use crate::clients::upkeep::Upkeep;
use crate::limits::ClientLimits;
use rhythm_net::{ConnectionId, ConnectionTable, Port, Time};
use rhythm_protocol::http::request::RequestHead;
use std::net::SocketAddr;

/// All clients' connections of a thread.
#[derive(Debug)]
pub struct Clients {
    pub(crate) connections: ConnectionTable<Connection>,
    pub(crate) upkeep: Upkeep,
    pub(crate) outbox: Outbox,
    pub(crate) held: Held,
    /// Answers that hosts owe to clients that are gone, and what of them was sent.
    pub(crate) gone: Vec<(HostId, Given)>,
    due: Vec<u32>,
    /// What the next input is read with.
    pub(crate) spare: Option<Box<Input>>,
}

impl Clients {
    /// No connections yet.
    pub fn new(limits: ClientLimits, now: Time) -> Clients {
        Clients {
            connections: ConnectionTable::new(),
            upkeep: Upkeep::new(limits, now),
            outbox: Outbox::new(),
            held: Held::new(limits.held_max),
            gone: Vec::new(),
            due: Vec::new(),
            spare: None,
        }
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.connections.len()
    }

    /// Whether this is an open connection of a client.
    #[inline]
    pub fn has(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_some()
    }

    /// Who is at the other end of an open connection.
    pub fn peer(&self, id: ConnectionId) -> Option<SocketAddr> {
        Some(self.connections.get(id)?.peer)
    }

    /// Whether every answer is the last of its connection.
    pub fn is_draining(&self) -> bool {
        self.upkeep.draining
    }

    /// A connection was accepted.
    pub fn opened(&mut self, id: ConnectionId, peer: SocketAddr, now: Time) {
        let connection = Connection::new(peer, now);
        let old = self.connections.insert(id, connection);
        debug_assert!(old.is_none(), "a driver tells of a connection's end");
        let limit = self.upkeep.first_limit();
        self.upkeep.timers.set(id.slot(), now + limit);
    }

    /// The client sends no more.
    pub fn peer_finished(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.peer_finished = true;
        if connection.receiving.is_some() {
            // The rest of that request's content will never come.
            port.abort(id);
            self.remove(id);
        } else {
            self.settle(port, id, now);
        }
    }

    /// Forgets a connection that is gone.
    pub fn remove(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id) {
            self.held.forget(&connection);
            let unsent = match self.outbox.is_for(id) {
                true => self.outbox.bytes.len(),
                false => 0,
            };
            self.gone.extend(connection.hosted(id, unsent));
            self.upkeep.timers.clear(id.slot());
        }
        self.outbox.forget(id);
    }

    /// What must hold between two events.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        let mut held = 0;
        for (id, connection) in self.connections.iter() {
            held += connection.held;
            if connection.held != connection.memory() {
                let (held, memory) = (connection.held, connection.memory());
                return Err(format!(
                    "{id:?} holds {memory} bytes, of which {held} count"
                ));
            }
            let buffers = connection.pending.capacity() + connection.outgoing.capacity();
            if connection.is_idle() && buffers != 0 {
                return Err(format!("{id:?} is idle and keeps a buffer"));
            }
            if self.upkeep.timers.deadline(id.slot()).is_none() && !connection.closing {
                return Err(format!("{id:?} may stay for ever: it has no timer"));
            }
            if connection.pending.len() as u32 > connection.under_way() {
                return Err(format!("{id:?} has answers to nothing"));
            }
        }
        let holders = self.connections.iter().filter(|(_, one)| one.held > 0);
        if self.held.is_over() && holders.count() > 1 {
            return Err(format!("{held} bytes are held, and nobody gives way"));
        }
        if held != self.held.total {
            return Err(format!(
                "{held} bytes are held and {} count",
                self.held.total
            ));
        }
        self.outbox.check()
    }

    /// Takes the next request of a connection. `None` where that is gone.
    #[inline]
    pub(crate) fn accept(&mut self, id: ConnectionId, head: &RequestHead) -> Option<Owed> {
        let connection = self.connections.get_mut(id)?;
        Some(self.upkeep.take(id, connection, head))
    }

    /// Takes what cannot be understood, or is not wanted, as a connection's last request, and reads
    /// no more from it: where the next one begins is not known.
    pub fn accept_last(&mut self, port: &mut dyn Port, id: ConnectionId) -> Option<Owed> {
        let connection = self.connections.get_mut(id)?;
        let slot = AnswerSlot {
            connection: id,
            ordinal: connection.take_request(true),
        };
        let shape = AnswerShape {
            close: true,
            ..AnswerShape::default()
        };
        port.pause(id);
        let peer = connection.peer;
        Some(Owed { slot, shape, peer })
    }

    /// After anything that happened to a connection: see [`Upkeep::settle`].
    pub(crate) fn settle(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if let Some(connection) = self.connections.get_mut(id) {
            let is_sent = !self.outbox.is_for(id);
            if (self.upkeep).settle(port, id, connection, &mut self.held, is_sent, now) {
                self.remove(id);
            }
        }
    }

    /// Whether one of the lists below has one to give.
    pub fn has_news(&self) -> bool {
        !(self.upkeep.unstalled.is_empty() && self.upkeep.roomy.is_empty() && self.gone.is_empty())
    }

    /// A connection whose stall is over, for [`Clients::proceed`].
    pub fn next_unstalled(&mut self) -> Option<ConnectionId> {
        self.upkeep.unstalled.pop_front()
    }

    /// An answer in pieces that has room again.
    pub(crate) fn next_roomy(&mut self) -> Option<(HostId, AnswerSlot)> {
        self.upkeep.roomy.pop()
    }

    /// An answer that a host owes to a client that is gone.
    pub(crate) fn next_gone(&mut self) -> Option<(HostId, Given)> {
        self.gone.pop()
    }

    /// A host takes the content of a request again: its stall is over.
    pub fn resume(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.stall == Some(Stall::Host)
        {
            self.upkeep.may_go_on(id, connection);
        }
    }

    /// When [`Clients::expire`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        self.upkeep.timers.wake_at()
    }

    /// Deals with the timers that are due, but for requests that are to be answered 408, which it
    /// appends.
    pub fn expire(&mut self, port: &mut dyn Port, now: Time, requests: &mut Vec<ConnectionId>) {
        let mut due = std::mem::take(&mut self.due);
        self.upkeep.timers.expire(now, |slot| due.push(slot));
        for slot in due.drain(..) {
            let Some(id) = self.connections.id_at(slot) else {
                continue;
            };
            let Some(connection) = self.connections.get(id) else {
                continue;
            };
            match connection.waiting {
                Waiting::Body if connection.receiving.is_some() => {
                    port.abort(id);
                    self.remove(id);
                }
                Waiting::Head | Waiting::Body => requests.push(id),
                Waiting::First | Waiting::Idle => {
                    port.close(id);
                    self.remove(id);
                }
                Waiting::Output => {
                    port.abort(id);
                    self.remove(id);
                }
                // The answer has a deadline of its own.
                Waiting::Answer => self
                    .upkeep
                    .timers
                    .set(slot, now + self.upkeep.limits.idle_timeout),
            }
        }
        self.due = due;
    }

    /// From now on every answer is its connection's last; those that wait for none are closed.
    pub fn drain(&mut self, port: &mut dyn Port, now: Time) {
        self.upkeep.draining = true;
        let idle: Vec<ConnectionId> = (self.connections.iter())
            .filter(|(_, connection)| connection.requests > 0 && connection.is_idle())
            .map(|(id, _)| id)
            .collect();
        for id in idle {
            port.close(id);
            self.remove(id);
        }
        // Their first request may be on its way.
        let limit = now + self.upkeep.first_limit();
        for (id, connection) in self.connections.iter() {
            if connection.waiting == Waiting::First {
                self.upkeep.timers.set(id.slot(), limit);
            }
        }
    }

    /// Drops all connections.
    pub fn abort_all(&mut self, port: &mut dyn Port) {
        let all: Vec<ConnectionId> = self.connections.iter().map(|(id, _)| id).collect();
        for id in all {
            port.abort(id);
            self.remove(id);
        }
    }
}
