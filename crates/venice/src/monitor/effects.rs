//! What a monitor does to the world: messages to connections, and connections that end.

use super::keeper::Record;
use crate::wire::Message;

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// To be sent on a connection.
    Send(u64, Message),
    /// A connection to be closed when what was sent on it is there.
    Close(u64),
}

/// What is to be kept, and then to be done. Nothing is done before all of it is kept.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) records: Vec<Record>,
    pub(super) effects: Vec<Effect>,
}

impl Effects {
    pub(super) fn send(&mut self, connection: u64, message: Message) {
        self.effects.push(Effect::Send(connection, message));
    }
}
