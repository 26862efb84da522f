//! What a layer keeps of its connections.

use super::codec::Codecs;
use crate::outgoing::Outgoing;
use crate::port::{ConnectionId, Time};
use crate::table::ConnectionTable;
use crate::timer::TimerWheel;
use std::time::Duration;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Begun by us, and the handler waits for `connected`.
    Connecting,
    /// In use by the handler.
    Open,
    /// Closed by the handler: what is held is still to be sent.
    Closing,
}

/// A connection with a codec.
pub(super) struct Link<C> {
    pub(super) codec: C,
    pub(super) phase: Phase,
    /// The rest of what was sealed at once, and of greetings.
    pub(super) held: Outgoing,
    /// The handler's last send was not taken whole.
    pub(super) wants_write: bool,
    pub(super) is_paused: bool,
    /// The handler knows that the peer has finished.
    pub(super) has_told_end: bool,
}

/// What the layer keeps beside its handler.
pub(super) struct State<S: Codecs> {
    pub(super) codecs: S,
    pub(super) links: ConnectionTable<Link<S::Codec>>,
    /// Connections that were resumed: their end may be due to be told.
    pub(super) resumed: Vec<ConnectionId>,
    /// Until when a closing connection may take what is held, by slot.
    pub(super) closing: TimerWheel,
    pub(super) linger: Duration,
    /// Until when the others are waited for that have such a time, where the handler has finished.
    pub(super) ends_at: Option<Time>,
    /// The records being sealed, used again for all.
    pub(super) record: Vec<u8>,
    pub(super) now: Time,
}

impl<S: Codecs> State<S> {
    /// Adds a connection with this codec.
    pub(super) fn add(&mut self, id: ConnectionId, codec: S::Codec, phase: Phase) {
        let link = Link {
            codec,
            phase,
            held: Outgoing::new(),
            wants_write: false,
            is_paused: false,
            has_told_end: false,
        };
        let before = self.links.insert(id, link);
        debug_assert!(before.is_none(), "a connection that is gone is forgotten");
    }

    /// Whether what is held is still to be sent to somebody that the handler is done with.
    pub(super) fn is_closing(&self) -> bool {
        let mut links = self.links.iter();
        links.any(|(_, link)| link.phase == Phase::Closing)
    }

    /// Forgets a connection that is gone, and says where it stood if it had a codec.
    pub(super) fn forget(&mut self, id: ConnectionId) -> Option<Phase> {
        let link = self.links.remove(id)?;
        if link.phase == Phase::Closing {
            self.closing.clear(id.slot());
        }
        Some(link.phase)
    }
}
