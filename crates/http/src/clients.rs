//! All clients' connections of a thread: who is there, what each waits for, and how it ends.
//!
//! Requests of a connection are numbered as they are taken ([`Clients::accept`]), and answers go
//! out by these numbers (`turns.rs`, `stream.rs`). An idle connection has no buffer at all.
//!
//! The calls go one way: an answer is *written*, which may *flush* the outbox, which *settles* the
//! connection that it was for (`upkeep.rs`). Each event looks its connection up once
//! (`at_hand.rs`): when input comes, for all requests in it that become lanes (`reader.rs`); when
//! an answer is written, which is sent with that if it is long; when the outbox is sent.

pub(crate) mod admission;
mod at_hand;
pub(crate) mod connection;
pub(crate) mod held;
pub(crate) mod input;
pub(crate) mod no_room;
pub(crate) mod outbox;
mod quantum;
pub(crate) mod reader;
mod relief;
pub(crate) mod stall;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
mod turns;
pub(crate) mod upkeep;

use crate::answer::{AnswerShape, AnswerSlot, Answered, Given, HostId, Owed};
use crate::clients::connection::{Connection, Pending, Waiting};
use crate::clients::held::Held;
use crate::clients::input::{Incoming, Input};
use crate::clients::outbox::Outbox;
use crate::clients::quantum::Quantum;
use crate::clients::stall::Stall;
use crate::clients::upkeep::Upkeep;
use crate::limits::ClientLimits;
use rhythm_net::{
    Accepted, Client, ConnectionId, ConnectionTable, Ended, Port, Role, TURN_MAX, Time,
};
use rhythm_protocol::http::request::{HeadTemplate, RequestHead};
use std::time::Duration;

/// Connections closed at a time, where others need their places or their time is over; and after
/// how many no more are, where that took as long as a turn has for it. It takes the system long to
/// clear away what one left unread.
const CLOSED_MAX: usize = 32;
const CLOSED_SLICE: usize = 4;
const CLOSING_MAX: Duration = Duration::from_nanos(TURN_MAX.as_nanos() as u64 / 2);

/// All clients' connections of a thread.
#[derive(Debug)]
pub struct Clients {
    pub(crate) connections: ConnectionTable<Connection>,
    pub(crate) upkeep: Upkeep,
    pub(crate) outbox: Outbox,
    pub(crate) held: Held,
    /// Those that give way next, the slowest last (`relief.rs`).
    slowest: Vec<((bool, Time), ConnectionId)>,
    deserted: u64,
    too_slow: u64,
    quantum: Quantum,
    /// Answers that hosts owe to clients that are gone, and what of them was sent.
    pub(crate) gone: Vec<(HostId, Given)>,
    due: Vec<u32>,
    /// What the next input is read with.
    pub(crate) spare: Option<Box<Input>>,
    /// What the heads of requests look like.
    pub(crate) template: HeadTemplate,
}

impl Clients {
    /// What a connection takes at most beside what it [holds](Clients::held), in bytes: its places
    /// in tables, which double when they grow, here and in a driver, and its timers.
    pub const CONNECTION_BYTES: usize = 2 * (size_of::<Option<(ConnectionId, Connection)>>() + 256);

    /// What the buffer takes that all connections share, beside the one answer in it.
    pub const OUTBOX_BYTES: usize = outbox::KEPT_BYTES;

    /// No connections yet.
    pub fn new(limits: ClientLimits, now: Time) -> Clients {
        Clients {
            connections: ConnectionTable::new(),
            upkeep: Upkeep::new(limits, now),
            outbox: Outbox::new(),
            held: Held::new(limits.held_max),
            slowest: Vec::new(),
            deserted: 0,
            too_slow: 0,
            quantum: Quantum::new(),
            gone: Vec::new(),
            due: Vec::new(),
            spare: None,
            template: HeadTemplate::default(),
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

    /// Connections that were gone before all their requests had answers, since the beginning.
    pub fn deserted(&self) -> u64 {
        self.deserted
    }

    /// Who is at the other end of an open connection.
    pub fn peer(&self, id: ConnectionId) -> Option<Client> {
        Some(self.connections.get(id)?.peer)
    }

    /// Has the head of an answer that is owed have these lines, beside its own: whole ones, each
    /// with its end.
    pub fn add_lines(&mut self, slot: AnswerSlot, lines: &[u8]) {
        if let Some(connection) = self.connections.get_mut(slot.connection)
            && connection.is_unanswered(slot.ordinal)
        {
            connection.added.push((slot.ordinal, lines.into()));
            self.held.count(connection);
        }
    }

    /// Whether the client's socket has taken all of an answer that was given, and of what was
    /// before it; `None` where the connection is gone. To be asked when a turn is over.
    pub fn is_sent(&self, slot: AnswerSlot) -> Option<bool> {
        let connection = self.connections.get(slot.connection)?;
        let is_written = slot.ordinal.wrapping_sub(connection.next_answer) > i32::MAX as u32;
        Some(is_written && connection.outgoing.is_empty())
    }

    /// Whether every answer is the last of its connection.
    pub fn is_draining(&self) -> bool {
        self.upkeep.drain.is_some()
    }

    /// A connection was accepted.
    pub fn opened(&mut self, accepted: Accepted, now: Time) {
        let id = accepted.connection;
        let connection = Connection::new(accepted, now);
        let old = self.connections.insert(id, connection);
        debug_assert!(old.is_none(), "a driver tells of a connection's end");
        let deadline = self.upkeep.deadline(Waiting::First, now);
        self.upkeep.timers.set(id.slot(), deadline);
    }

    /// What the listener is for at which a client came in, and where the client is; of a
    /// connection that is open.
    pub fn came_by(&self, id: ConnectionId) -> Option<(Role, Client)> {
        let connection = self.connections.get(id)?;
        Some((connection.role, connection.peer))
    }

    /// The client sends no more, or its connection has failed. Whether it is an open connection of
    /// a client.
    pub fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) -> bool {
        let Some(mut at) = self.at_hand(id) else {
            return false;
        };
        let is_over = match how {
            Ended::Failed(_) => true,
            Ended::PeerFinished => {
                at.connection.peer_finished = true;
                let ends = |pending: &Pending| pending.ends_with_input && pending.host().is_some();
                if at.connection.receiving.is_some() || at.connection.pending.iter().any(ends) {
                    // The rest of that request's content will never come, or nobody waits for the
                    // answer.
                    port.abort(id);
                    true
                } else {
                    at.settle(port, now)
                }
            }
        };
        if is_over {
            self.remove(id);
        }
        true
    }

    /// Forgets a connection that is gone.
    pub fn remove(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id) {
            self.deserted += u64::from(connection.unknown() > 0);
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
            let mut promises = connection.promises.iter();
            if let Some(promise) = promises.find(|promise| !connection.owes(promise.ordinal)) {
                return Err(format!("{id:?} is not owed {promise:?}"));
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
        let promised: usize = (self.connections.iter())
            .flat_map(|(_, connection)| &connection.promises)
            .map(|promise| promise.bytes)
            .sum();
        if promised != self.held.promised {
            let counted = self.held.promised;
            return Err(format!("{promised} bytes are promised and {counted} count"));
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
        Some(self.upkeep.take(id, connection, head, false))
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
        Some(connection.owe(slot, shape))
    }

    /// Whether one of the lists has one to give: [`Clients::next_unstalled`] and those below.
    pub fn has_news(&self, now: Time) -> bool {
        self.quantum.is_left() && self.is_behind(now) || self.hosts_have_news()
    }

    /// Whether hosts are to be told of answers that have room again, or of clients that are gone.
    pub fn hosts_have_news(&self) -> bool {
        !(self.upkeep.roomy.is_empty() && self.gone.is_empty())
    }

    /// Whether a connection waits that may go on, in this turn or the next.
    fn is_behind(&self, now: Time) -> bool {
        !self.upkeep.unstalled.is_empty() || self.room_opens(now)
    }

    /// An answer in pieces that has room again.
    pub(crate) fn next_roomy(&mut self) -> Option<(HostId, AnswerSlot)> {
        // Its client may have gone since that was noted, which is told by itself.
        loop {
            let (host, slot) = self.upkeep.roomy.pop()?;
            let connection = self.connections.get(slot.connection);
            if connection.is_some_and(|it| it.position(slot.ordinal).is_some()) {
                return Some((host, slot));
            }
        }
    }

    /// An answer that a host owes to a client that is gone.
    pub(crate) fn next_gone(&mut self) -> Option<(HostId, Given)> {
        self.gone.pop()
    }

    /// A host is done with an answer whose client may be gone: it need not be told. If it was to
    /// be, what of the answer was sent.
    pub(crate) fn forget_gone(&mut self, slot: AnswerSlot) -> Option<Option<Answered>> {
        let index = (self.gone.iter()).position(|(_, (gone, _))| *gone == slot)?;
        let (_, (_, sent)) = self.gone.swap_remove(index);
        Some(sent)
    }

    /// What has come of a connection's next request, without its content.
    pub fn part(&self, id: ConnectionId) -> Option<Incoming<'_>> {
        let input = self.connections.get(id)?.input.as_deref()?;
        Some(input.part())
    }

    /// Connections that were dropped, since the beginning, because the client took an answer, or
    /// sent what a host takes in pieces, more slowly than it may.
    pub fn too_slow(&self) -> u64 {
        self.too_slow
    }

    /// A host takes the content of a request again: its stall is over.
    pub fn resume(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.stall == Some(Stall::Host)
        {
            self.upkeep.may_go_on(id, connection);
        }
    }

    /// When [`Clients::expire`] is due, or a connection that waits goes on.
    pub fn wake_at(&self) -> Option<Time> {
        if self.is_behind(Time::ZERO) || !self.upkeep.roomy.is_empty() || !self.gone.is_empty() {
            return Some(Time::ZERO);
        }
        let room_at = (!self.upkeep.no_room.is_empty()).then_some(self.upkeep.room_at);
        [room_at, self.upkeep.timers.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Deals with timers that are due, but for requests that are to be answered 408, which it
    /// appends. Where many are, others are dealt with in the next turns.
    pub fn expire(&mut self, port: &mut dyn Port, now: Time, requests: &mut Vec<ConnectionId>) {
        let mut due = std::mem::take(&mut self.due);
        (self.upkeep.timers).expire_some(now, CLOSED_MAX, |slot| due.push(slot));
        let (began, mut is_over) = (port.clock(now), false);
        for (count, slot) in due.drain(..).enumerate() {
            is_over |= is_closing_over(count, began, port, now);
            if is_over {
                self.upkeep.timers.set(slot, now);
                continue;
            }
            let Some(id) = self.connections.id_at(slot) else {
                continue;
            };
            let Some(connection) = self.connections.get(id) else {
                continue;
            };
            match connection.waiting {
                Waiting::Body if connection.receiving.is_some() => {
                    self.too_slow += 1;
                    port.abort(id);
                    self.remove(id);
                }
                Waiting::Head | Waiting::Body => requests.push(id),
                // Its answer is yet to be sent, after which it is settled anew.
                Waiting::First | Waiting::Idle if self.outbox.is_for(id) => self.flush(port, now),
                Waiting::First | Waiting::Idle => {
                    port.close(id);
                    self.remove(id);
                }
                Waiting::Output => {
                    self.too_slow += 1;
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

    /// From now on every answer is its connection's last. Those that are owed none may still ask
    /// until a time, and are closed then, and who does not take an answer dropped; told again,
    /// until the earlier one.
    pub fn drain(&mut self, until: Time) {
        let until = self.upkeep.drain.map_or(until, |before| until.min(before));
        self.upkeep.drain = Some(until);
        for (id, connection) in self.connections.iter() {
            if connection.waiting != Waiting::Answer {
                let deadline = self.upkeep.deadline(connection.waiting, connection.since);
                self.upkeep.timers.set(id.slot(), deadline);
            }
        }
    }

    /// Others need places: closes connections that have been silent for longest, and for
    /// [long enough](crate::ClientLimits::yield_after). Who sends a body counts as silent since its
    /// head, and who takes an answer for as long as it is behind the least rate; but not while it
    /// takes it in good time, as after a while in which nobody was served. How many.
    pub fn make_room(&mut self, port: &mut dyn Port, now: Time) -> usize {
        let least = self.upkeep.limits.yield_after;
        let silent_since = |connection: &Connection| match connection.waiting {
            Waiting::Answer => None,
            // Requests before it wait for us.
            Waiting::Body
                if connection.under_way() != u32::from(connection.receiving.is_some()) =>
            {
                None
            }
            Waiting::Output if now <= connection.takes_until => {
                Some(connection.since.max(connection.took_at))
            }
            _ => Some(connection.since),
        };
        let silent = (self.connections.iter())
            .filter_map(|(id, connection)| Some((silent_since(connection)?, id)))
            .filter(|(since, _)| now.since(*since) >= least);
        let mut silent: Vec<(Time, ConnectionId)> = silent.collect();
        if silent.len() > CLOSED_MAX {
            silent.select_nth_unstable(CLOSED_MAX);
            silent.truncate(CLOSED_MAX);
        }
        let (began, mut closed) = (port.clock(now), 0);
        for (_, id) in silent {
            if is_closing_over(closed, began, port, now) {
                break;
            }
            match self
                .connections
                .get(id)
                .map(|connection| connection.waiting)
            {
                // Something was sent of it, which is not to look whole.
                Some(Waiting::Output) => port.abort(id),
                _ => port.close(id),
            }
            self.remove(id);
            closed += 1;
        }
        closed
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

/// Whether after so many no more connections are closed for now, since then.
fn is_closing_over(count: usize, began: Time, port: &dyn Port, now: Time) -> bool {
    count > 0 && count.is_multiple_of(CLOSED_SLICE) && port.clock(now).since(began) >= CLOSING_MAX
}
