//! A connection at hand: looked up once, for as long as an event takes, beside what all connections
//! have in common.
//!
//! The steps of an event are taken by it and need no key. Whether its connection is over they give
//! back: who looked it up removes it, when it is not at hand any more.

use crate::answer::body::Body;
use crate::clients::Clients;
use crate::clients::connection::Connection;
use crate::clients::held::Held;
use crate::clients::input::Input;
use crate::clients::outbox::{Gathered, Outbox};
use crate::clients::quantum::Quantum;
use crate::clients::stall::Stall;
use crate::clients::upkeep::Upkeep;
use rhythm_net::{ConnectionId, Flushed, Port, Time};
use rhythm_protocol::http::request::HeadTemplate;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct AtHand<'c> {
    pub(crate) id: ConnectionId,
    pub(crate) connection: &'c mut Connection,
    pub(crate) upkeep: &'c mut Upkeep,
    pub(crate) outbox: &'c mut Outbox,
    pub(crate) held: &'c mut Held,
    pub(crate) quantum: &'c mut Quantum,
    /// What the next input is read with.
    pub(crate) spare: &'c mut Option<Box<Input>>,
    /// What the heads of requests look like.
    pub(crate) template: &'c mut HeadTemplate,
    /// [`Clients::deserted`].
    pub(crate) deserted: u64,
}

impl Clients {
    /// Looks a connection up.
    #[inline]
    pub(crate) fn at_hand(&mut self, id: ConnectionId) -> Option<AtHand<'_>> {
        Some(AtHand {
            id,
            connection: self.connections.get_mut(id)?,
            upkeep: &mut self.upkeep,
            outbox: &mut self.outbox,
            held: &mut self.held,
            quantum: &mut self.quantum,
            spare: &mut self.spare,
            template: &mut self.template,
            deserted: self.deserted,
        })
    }
}

impl AtHand<'_> {
    /// What the connection's answers may be.
    #[inline]
    pub(crate) fn budget(&self) -> usize {
        self.held.budget(self.upkeep.limits.unsent_max)
    }

    /// Counts what the connection holds by now.
    #[inline]
    pub(crate) fn count(&mut self) {
        self.held.count(self.connection);
    }

    /// After anything that happened to the connection: see [`Upkeep::settle`]. Whether it is over.
    #[must_use]
    #[inline]
    pub(crate) fn settle(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let is_sent = !self.outbox.is_for(self.id);
        let (connection, held) = (&mut *self.connection, &mut *self.held);
        (self.upkeep).settle(port, self.id, connection, held, is_sent, now)
    }

    /// Takes no more input for now. Whether it was taken until now. A host that takes no more is
    /// waited for whatever else was: only that host knows when it goes on.
    pub(crate) fn stall(&mut self, port: &mut dyn Port, stall: Stall) -> bool {
        let first = self.connection.stall.is_none();
        if first || stall == Stall::Host {
            self.connection.stop(stall);
        }
        if first && stall == Stall::Turn {
            self.upkeep.may_go_on(self.id, self.connection);
        }
        if first {
            port.pause(self.id);
        }
        first
    }

    /// Sends what the outbox holds, which is for this connection, and what was gathered. Whether
    /// the connection is over.
    #[must_use]
    #[inline]
    pub(crate) fn send(&mut self, port: &mut dyn Port, gathered: &Gathered<'_>, now: Time) -> bool {
        self.send_with(port, gathered, (&mut Vec::new(), 0), now)
    }

    /// The same, with so many bytes of a buffer behind what the outbox holds. What is kept of them
    /// is kept with the buffer, which is taken.
    #[must_use]
    pub(crate) fn send_with(
        &mut self,
        port: &mut dyn Port,
        gathered: &Gathered<'_>,
        behind: (&mut Vec<u8>, usize),
        now: Time,
    ) -> bool {
        debug_assert!(self.outbox.is_for(self.id), "each is sent what is its own");
        self.outbox.to = None;
        let (id, connection) = (self.id, &mut *self.connection);
        if !connection.pending.is_empty() {
            connection.decide(&mut self.outbox.bytes);
        }
        let before = connection.outgoing.sent_total();
        let flushed = (self.outbox).send(port, id, &mut connection.outgoing, gathered, behind);
        if connection.even_at > now {
            let won = (self.upkeep.limits).won(connection.outgoing.sent_total() - before);
            let left = connection.even_at.since(now).saturating_sub(won);
            connection.even_at = now + left;
        }
        match flushed {
            Flushed::Gone => true,
            Flushed::All | Flushed::Some => self.settle(port, now),
        }
    }

    /// Sends what the outbox holds, and this body from a buffer of its own. Whether the connection
    /// is over: there may be no memory for it.
    #[must_use]
    #[cold]
    pub(crate) fn send_at_once(&mut self, port: &mut dyn Port, body: &Body<'_>, now: Time) -> bool {
        if let Body::Own(buffer, length) = body {
            let mut bytes = buffer.take();
            let is_over = self.send_with(port, &Gathered::NONE, (&mut bytes, *length), now);
            *buffer.borrow_mut() = bytes;
            return is_over;
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(body.length()).is_err() {
            port.abort(self.id);
            return true;
        }
        body.write(&mut bytes);
        let length = bytes.len();
        self.send_with(port, &Gathered::NONE, (&mut bytes, length), now)
    }
}
