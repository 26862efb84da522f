//! A monitor that does not lead: who comes is sent on to the next one.

use super::Effect;
use super::Now;
use super::connection::Connection;
use crate::wire::{Message, TurnedAway, VERSION};
use rhythm_net::Time;
use std::collections::BTreeMap;

/// See the head of this file. It is told of the same things as a [`Monitor`](super::Monitor).
#[derive(Debug, Default)]
pub struct Spare {
    connections: BTreeMap<u64, Connection>,
    effects: Vec<Effect>,
}

impl Spare {
    /// Somebody opened a connection; no two that are open at a time have the same number.
    pub fn opened(&mut self, connection: u64, now: Now) {
        let new = Connection::begin(now.at);
        self.connections.insert(connection, new);
    }

    /// A message came: a greeting, or the connection ends without an answer.
    pub fn received(&mut self, connection: u64, message: &Message) {
        if self.connections.remove(&connection).is_none() {
            return;
        }
        if let Message::Hello { version, .. } = message {
            let why = match *version == VERSION {
                true => TurnedAway::NotLeading,
                false => TurnedAway::Version,
            };
            self.effects
                .push(Effect::Send(connection, Message::Away(why)));
        }
        self.effects.push(Effect::Close(connection));
    }

    /// Whether a connection has yet to be answered: nothing of it is read after that.
    pub fn listens(&self, connection: u64) -> bool {
        self.connections.contains_key(&connection)
    }

    /// A connection ended.
    pub fn closed(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }

    /// The time that [`Spare::wake_at`] named has come, or any other.
    pub fn tick(&mut self, now: Now) {
        let effects = &mut self.effects;
        self.connections.retain(|id, connection| {
            let is_late = connection.until().is_some_and(|until| until <= now.at);
            if is_late {
                effects.push(Effect::Close(*id));
            }
            !is_late
        });
    }

    /// When [`Spare::tick`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        let all = self.connections.values();
        all.filter_map(Connection::until).min()
    }

    /// What is to be done.
    pub fn flush(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}
