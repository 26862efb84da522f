//! The one buffer that all connections of a thread share, and that stays hot in the cache.

use rhythm_net::ConnectionId;

/// The shared buffer is sent when it holds this much: what stays in the second-level cache.
const OUTBOX_BYTES: usize = 64 * 1024;

/// The shared buffer, and whom what is in it is for.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    pub(crate) to: Option<ConnectionId>,
}

impl Outbox {
    /// An empty one.
    pub(crate) fn new() -> Outbox {
        Outbox {
            bytes: Vec::with_capacity(OUTBOX_BYTES * 2),
            to: None,
        }
    }

    /// Whether it holds bytes for this connection.
    #[inline]
    pub(crate) fn is_for(&self, id: ConnectionId) -> bool {
        self.to == Some(id)
    }

    /// Whether it is to be sent before anything is added.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= OUTBOX_BYTES
    }

    /// This connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        if self.is_for(id) {
            self.to = None;
            self.bytes.clear();
        }
    }

    /// What must hold between two events.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.to.is_none() && !self.bytes.is_empty() {
            return Err("bytes for nobody wait to be sent".to_owned());
        }
        Ok(())
    }
}
