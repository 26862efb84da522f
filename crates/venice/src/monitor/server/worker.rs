//! The thread: bytes of connections to messages, and at a turn's end what the monitor does.

use super::super::etcd::Place;
use super::super::keeper::{Keeper, NotKept, State};
use super::super::{Effect, Now};
use super::guard::{self, Guard};
use super::role::{Recipe, Role, Waiting};
use super::status::{self, Told};
use super::strangers::Strangers;
use crate::ask::Asked;
use crate::identity::{Party, TlsError};
use crate::incoming::Stream;
use crate::wire::{Garbage, JOIN_MAX, Join, Message, TurnedAway};
use rhythm_net::sparse::Sparse;
use rhythm_net::{Accepted, ConnectionId, ConnectionTable, Ended, Handler, Key, Port, Time};
use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

/// What it is asked from another thread.
pub(super) enum Order {
    /// To tell what is asked.
    Tell(Asked, SyncSender<Told>),
    /// To lead, with what is kept.
    Lead(Box<dyn Keeper>, Box<State>),
    /// Another monitor leads, or it is not known who.
    Follow(Waiting),
    /// To end: this one leads, of which it is no spare.
    End(Place),
}

/// Why a monitor could not go on.
#[derive(Debug)]
pub(super) enum Failure {
    /// Its disk.
    Disk(io::Error),
    /// This one leads, of which it is no spare.
    Foreign(Place),
}

/// See the head of this file.
pub(super) struct Worker {
    recipe: Recipe,
    role: Role,
    /// What is known of who leads, if that is another one.
    waiting: Waiting,
    streams: ConnectionTable<Stream>,
    strangers: Strangers,
    failure: Arc<Mutex<Option<Failure>>>,
    is_over: bool,
    /// Where connections are in TLS.
    guard: Option<Guard>,
    /// Of lines about what is no message.
    garbage: Sparse,
}

fn now(port: &dyn Port, at: Time) -> Now {
    let unix_seconds = port.wall_clock().unix_seconds;
    Now { at, unix_seconds }
}

impl Worker {
    /// `failure` is where it says why it could not go on.
    pub(super) fn new(recipe: Recipe, role: Role, failure: Arc<Mutex<Option<Failure>>>) -> Worker {
        Worker {
            recipe,
            role,
            waiting: Waiting::default(),
            streams: ConnectionTable::new(),
            strangers: Strangers::default(),
            failure,
            is_over: false,
            guard: None,
            garbage: Sparse::default(),
        }
    }

    /// Connections are in TLS.
    pub(super) fn guarded_by(mut self, guard: Option<Guard>) -> Worker {
        self.guard = guard;
        self
    }

    /// It cannot go on.
    fn fail(&mut self, why: Failure) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = Some(why);
        self.is_over = true;
    }

    /// A line about a connection, where there are not too many.
    fn refuse(&mut self, error: &dyn std::fmt::Display, at: Time) {
        if let Some(left_out) = self.garbage.line(at) {
            tracing::warn!(%error, left_out, "a connection is dropped");
        }
    }

    /// What came in TLS is no good. Who does not speak it is told so, as far as it speaks as nodes
    /// do.
    fn not_sealed(&mut self, port: &mut dyn Port, id: ConnectionId, error: &TlsError, at: Time) {
        self.role.is_stranger();
        self.refuse(error, at);
        if let (TlsError::NotTls, Some(stream)) = (error, self.streams.get_mut(id)) {
            stream.send_plain(port, id, &Message::Away(TurnedAway::Plain));
        }
        self.close(port, id, at);
    }

    /// Somebody without a certificate wants one; true where that is all that it may.
    fn joins(&mut self, port: &mut dyn Port, id: ConnectionId, at: Time) -> bool {
        let Some(stream) = self.streams.get_mut(id) else {
            return true;
        };
        if let Some(party) = stream.has_greeted() {
            match party {
                Some(Party::Node(name)) => self.role.certified(id.as_u64(), name),
                Some(Party::Monitor) | None => stream.joins = true,
            }
        }
        // Until they have greeted, nothing else comes.
        if !stream.joins {
            return false;
        }
        let (asked, guard) = (stream.take::<Join>(JOIN_MAX), self.guard.as_ref());
        match (asked, guard) {
            (Ok(None), Some(_)) => {}
            (Ok(Some(Join::Ask { secret, request })), Some(guard)) => {
                let joined = guard.join(&secret, &request);
                let answer = joined.as_ref().map_or_else(guard::not, Join::clone);
                stream.send(port, id, &answer);
                stream.farewell(port, id);
                if let Err(error) = joined {
                    self.role.is_stranger();
                    self.refuse(&format_args!("a node does not join: {error}"), at);
                }
                self.close(port, id, at);
            }
            (Ok(_), _) => {
                self.role.is_stranger();
                self.refuse(&"who shows no certificate can only join", at);
                self.end(port, id, at);
            }
            (Err(error), _) => {
                self.role.is_stranger();
                self.refuse(&error, at);
                self.end(port, id, at);
            }
        }
        true
    }

    /// A connection is gone, or is to be.
    fn end(&mut self, port: &mut dyn Port, id: ConnectionId, at: Time) {
        port.abort(id);
        if self.streams.remove(id).is_some() {
            self.role.closed(id.as_u64(), now(port, at));
        }
    }

    /// Ends a connection behind what it was told.
    fn close(&mut self, port: &mut dyn Port, id: ConnectionId, at: Time) {
        self.streams.remove(id);
        self.role.closed(id.as_u64(), now(port, at));
        port.close(id);
    }

    /// Forgets who is no stranger any more.
    fn look_at_strangers(&mut self) {
        let (role, streams) = (&self.role, &self.streams);
        let is_there = |id| streams.get(id).is_some();
        let is_stranger = |id: ConnectionId| is_there(id) && !role.is_node(id.as_u64());
        self.strangers.keep(is_stranger);
    }

    fn take(&mut self, id: ConnectionId) -> Result<Option<Message>, Garbage> {
        let most = self.role.message_max(id.as_u64());
        match self.streams.get_mut(id) {
            Some(stream) => stream.take(most),
            None => Ok(None),
        }
    }

    /// The connection of this number, if it is there still.
    fn id_of(&self, connection: u64) -> Option<ConnectionId> {
        let id = ConnectionId::from(Key::from_u64(connection));
        self.streams.get(id).map(|_| id)
    }

    /// Has everything kept, then done; returns the connections that are gone.
    fn flush(&mut self, port: &mut dyn Port) -> Vec<ConnectionId> {
        let effects = match self.role.flush() {
            Ok(effects) => effects,
            Err(NotKept::Disk(error)) => {
                tracing::error!(%error, "the monitor cannot write its journal, and ends");
                self.fail(Failure::Disk(error));
                return Vec::new();
            }
            Err(error @ NotKept::Deposed(_)) => {
                tracing::warn!(%error, "the monitor is a spare now");
                self.role = Role::waits();
                self.end_all(port);
                return Vec::new();
            }
        };
        let mut gone = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send(connection, message) => {
                    if let Some(id) = self.id_of(connection)
                        && let Some(stream) = self.streams.get_mut(id)
                        && !stream.send(port, id, &message)
                    {
                        gone.push(id);
                    }
                }
                Effect::Close(connection) => {
                    if let Some(id) = self.id_of(connection) {
                        self.streams.remove(id);
                        port.close(id);
                    }
                }
            }
        }
        gone
    }

    /// All are to find out anew who leads.
    fn end_all(&mut self, port: &mut dyn Port) {
        let away = Message::Away(TurnedAway::NotLeading);
        let mut streams = std::mem::take(&mut self.streams);
        for (id, stream) in streams.iter_mut() {
            // One that is gone need not know.
            let _ = stream.send(port, id, &away);
            port.close(id);
        }
    }
}

impl Handler for Worker {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, at: Time) {
        let id = accepted.connection;
        let session = self.guard.as_ref().map(Guard::session);
        match session.transpose() {
            Ok(session) => {
                let stream = session.map_or_else(Stream::default, Stream::sealed);
                self.streams.insert(id, stream);
                self.role.opened(id.as_u64(), now(port, at));
                self.look_at_strangers();
                if let Some(first) = self.strangers.come(id, accepted.peer.address()) {
                    self.refuse(&"its address has many more that are no agent's", at);
                    self.end(port, first, at);
                }
            }
            Err(error) => {
                self.refuse(&error, at);
                port.abort(id);
            }
        }
    }

    fn crowded(&mut self, port: &mut dyn Port, at: Time) {
        self.look_at_strangers();
        for id in self.strangers.make_room() {
            self.refuse(
                &"all places are taken, and it was no agent's for the longest",
                at,
            );
            self.end(port, id, at);
        }
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], at: Time) {
        if let Some(stream) = self.streams.get_mut(id)
            && let Err(error) = stream.push(port, id, bytes)
        {
            return self.not_sealed(port, id, &error, at);
        }
        if self.guard.is_some() && self.joins(port, id, at) {
            return;
        }
        // What comes behind its answer is not read: a registration comes with the greeting in TLS.
        while self.role.listens(id.as_u64()) {
            match self.take(id) {
                Ok(Some(message)) => self.role.received(id.as_u64(), message, now(port, at)),
                Ok(None) => return,
                Err(error) => {
                    self.refuse(&error, at);
                    return self.end(port, id, at);
                }
            }
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, _: Ended, at: Time) {
        self.end(port, id, at);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, at: Time) {
        let stream = self.streams.get_mut(id);
        if stream.is_some_and(|stream| !stream.writable(port, id)) {
            self.end(port, id, at);
        }
    }

    fn tick(&mut self, port: &mut dyn Port, at: Time) {
        self.role.tick(now(port, at));
    }

    fn idle(&mut self, port: &mut dyn Port, at: Time) {
        loop {
            let gone = self.flush(port);
            if gone.is_empty() {
                return;
            }
            gone.into_iter().for_each(|id| self.end(port, id, at));
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.role.wake_at()
    }

    fn finished(&self) -> bool {
        self.is_over
    }
}

impl rhythm_net::Worker for Worker {
    type Command = Order;

    fn obey(&mut self, port: &mut dyn Port, order: Order, now: Time) {
        match order {
            // Who asked may have left.
            Order::Tell(asked, to) => {
                let told = status::tell(&self.role, &self.waiting, asked, now);
                drop(to.try_send(told));
            }
            Order::Lead(keeper, state) => {
                tracing::info!(loans = state.loans.len(), "the monitor leads");
                self.end_all(port);
                self.role = self.recipe.leads(keeper, &state, now);
                self.waiting = Waiting::default();
            }
            Order::End(leader) => self.fail(Failure::Foreign(leader)),
            Order::Follow(waiting) => {
                // One that leads finds out by itself when it does so no more.
                if matches!(self.role, Role::Waits(_)) {
                    tracing::info!("{waiting}");
                }
                self.waiting = waiting;
            }
        }
    }
}
