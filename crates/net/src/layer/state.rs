//! What a layer keeps of its connections.

use super::codec::Codecs;
use crate::outgoing::Outgoing;
use crate::port::{ConnectionId, Port, Time};
use crate::table::ConnectionTable;
use crate::timer::TimerWheel;
use std::time::Duration;

/// For how long what is held is sent at least, where others wait for its connection's place.
pub(super) const YIELD_AFTER: Duration = Duration::from_secs(5);

/// Connections dropped at a time that did not take it: to close one takes the system a while, in
/// which nobody is served.
pub(super) const DROPPED_MAX: usize = 8;

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
    /// Begun by us: it has no place that a client could have.
    is_ours: bool,
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
    /// Adds a connection with this codec; one that is being connected is ours.
    pub(super) fn add(&mut self, id: ConnectionId, codec: S::Codec, phase: Phase) {
        let link = Link {
            codec,
            is_ours: phase == Phase::Connecting,
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

    /// Drops connections that have not taken in time what is held.
    pub(super) fn drop_late(&mut self, port: &mut dyn Port, now: Time) {
        let mut late = Vec::new();
        (self.closing).expire_some(now, DROPPED_MAX, |slot| late.push(slot));
        for slot in late {
            let id = self.links.id_at(slot);
            debug_assert!(id.is_some(), "a connection that is forgotten has no timer");
            if let Some(id) = id {
                port.abort(id);
                self.forget(id);
            }
        }
    }

    /// Clients need places: drops those of them that have not taken what is held for longest, and
    /// for long enough. Whether there were any.
    pub(super) fn make_room(&mut self, port: &mut dyn Port) -> bool {
        let left_max = self.linger.saturating_sub(YIELD_AFTER);
        let clients = self.links.iter().filter(|(_, link)| !link.is_ours);
        let closing = clients.filter_map(|(id, link)| {
            let until = match link.phase {
                Phase::Closing => self.closing.deadline(id.slot())?,
                Phase::Connecting | Phase::Open => return None,
            };
            (until <= self.now + left_max).then_some((until, id))
        });
        let mut closing: Vec<(Time, ConnectionId)> = closing.collect();
        if closing.len() > DROPPED_MAX {
            closing.select_nth_unstable(DROPPED_MAX);
            closing.truncate(DROPPED_MAX);
        }
        for (_, id) in &closing {
            port.abort(*id);
            self.forget(*id);
        }
        !closing.is_empty()
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
