//! The thread: bytes of connections to messages, and at a turn's end what the monitor does.

use super::super::keeper::Keeper;
use super::super::{Effect, Monitor, Now};
use super::status::{self, Told};
use crate::incoming::Stream;
use crate::wire::{Garbage, Message};
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
            garbage: Sparse::default(),
        }
    }

    /// A connection is gone, or is to be.
    fn end(&mut self, port: &mut dyn Port, id: ConnectionId, at: Time) {
        port.abort(id);
        if self.streams.remove(id).is_some() {
            self.monitor.closed(id.as_u64(), now(port, at));
        }
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
        self.streams.insert(id, Stream::default());
        self.monitor.opened(id.as_u64(), now(port, at));
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], at: Time) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.push(bytes);
        }
        loop {
            match self.take(id) {
                Ok(Some(message)) => self.monitor.received(id.as_u64(), message, now(port, at)),
                Ok(None) => return,
                Err(error) => {
                    if let Some(left_out) = self.garbage.line(at) {
                        tracing::warn!(%error, left_out, "a connection is dropped");
                    }
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
