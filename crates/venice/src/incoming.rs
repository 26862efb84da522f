//! Bytes of connections that are no whole message yet, and bytes that are owed.

use crate::wire::{self, Framed, Garbage};
use rhythm_net::{ConnectionId, Flushed, Outgoing, Port};

/// Most bytes that a peer may leave unread; then it is disconnected.
const UNSENT_MAX: usize = 4 << 20;
/// Room that is kept between messages.
const KEPT: usize = 4 << 10;

/// One connection's bytes, both ways.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    bytes: Vec<u8>,
    out: Outgoing,
}

impl Stream {
    /// Bytes came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the first whole message, if there is one, of `most` bytes at most.
    ///
    /// # Errors
    /// What came is none.
    pub(crate) fn take<M: Framed>(&mut self, most: usize) -> Result<Option<M>, Garbage> {
        let Some((message, end)) = wire::first(&self.bytes, most)? else {
            return Ok(None);
        };
        self.bytes.drain(..end);
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT);
        }
        Ok(Some(message))
    }

    /// Sends a message. False: the connection is gone, or its peer takes nothing.
    pub(crate) fn send<M: Framed>(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        message: &M,
    ) -> bool {
        let mut bytes = Vec::new();
        wire::put(message, &mut bytes);
        self.out.send(port, id, &bytes) != Flushed::Gone && self.out.unsent() <= UNSENT_MAX
    }

    /// The socket takes bytes again. False: the connection is gone.
    pub(crate) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId) -> bool {
        self.out.writable(port, id) != Flushed::Gone
    }
}
