//! The thread: bytes of connections to messages, and at a turn's end what the monitor does.

use super::super::keeper::Keeper;
use super::super::{Effect, Monitor, Now};
use super::guard::{self, Guard};
use super::status::{self, Told};
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
    /// To tell how everything is.
    Tell(SyncSender<Told>),
}

/// See the head of this file.
pub(super) struct Worker<K> {
    monitor: Monitor<K>,
    streams: ConnectionTable<Stream>,
    failure: Arc<Mutex<Option<io::Error>>>,
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

impl<K: Keeper> Worker<K> {
    /// Of a monitor; `failure` is where it says why it could not go on.
    pub(super) fn new(monitor: Monitor<K>, failure: Arc<Mutex<Option<io::Error>>>) -> Worker<K> {
        Worker {
            monitor,
            streams: ConnectionTable::new(),
            failure,
            is_over: false,
            guard: None,
            garbage: Sparse::default(),
        }
    }

    /// Connections are in TLS.
    pub(super) fn guarded_by(mut self, guard: Option<Guard>) -> Worker<K> {
        self.guard = guard;
        self
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
        self.monitor.is_stranger();
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
                Some(Party::Node(name)) => self.monitor.certified(id.as_u64(), name),
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
                    self.monitor.is_stranger();
                    self.refuse(&format_args!("a node does not join: {error}"), at);
                }
                self.close(port, id, at);
            }
            (Ok(_), _) => {
                self.monitor.is_stranger();
                self.refuse(&"who shows no certificate can only join", at);
                self.end(port, id, at);
            }
            (Err(error), _) => {
                self.monitor.is_stranger();
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
            self.monitor.closed(id.as_u64(), now(port, at));
        }
    }

    /// Ends a connection behind what it was told.
    fn close(&mut self, port: &mut dyn Port, id: ConnectionId, at: Time) {
        self.streams.remove(id);
        self.monitor.closed(id.as_u64(), now(port, at));
        port.close(id);
    }

    fn take(&mut self, id: ConnectionId) -> Result<Option<Message>, Garbage> {
        let most = self.monitor.message_max(id.as_u64());
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
        let effects = match self.monitor.flush() {
            Ok(effects) => effects,
            Err(error) => {
                tracing::error!(%error, "the monitor cannot write its journal, and ends");
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                *failure = Some(error);
                self.is_over = true;
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
}

impl<K: Keeper> Handler for Worker<K> {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, at: Time) {
        let id = accepted.connection;
        let session = self.guard.as_ref().map(Guard::session);
        match session.transpose() {
            Ok(session) => {
                let stream = session.map_or_else(Stream::default, Stream::sealed);
                self.streams.insert(id, stream);
                self.monitor.opened(id.as_u64(), now(port, at));
            }
            Err(error) => {
                self.refuse(&error, at);
                port.abort(id);
            }
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
        loop {
            match self.take(id) {
                Ok(Some(message)) => self.monitor.received(id.as_u64(), message, now(port, at)),
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
        self.monitor.tick(now(port, at));
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
        self.monitor.wake_at()
    }

    fn finished(&self) -> bool {
        self.is_over
    }
}

impl<K: Keeper> rhythm_net::Worker for Worker<K> {
    type Command = Order;

    fn obey(&mut self, _: &mut dyn Port, order: Order, now: Time) {
        let Order::Tell(to) = order;
        // Who asked may have left.
        let _ = to.try_send(status::tell(&self.monitor, now));
    }
}
