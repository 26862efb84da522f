//! How clients are let in, and what happens where there is no room for one.
//!
//! ```text
//!   no place (connections_max, places)   the handler is asked for one; then again after a pause
//!   no file, no memory (EMFILE)          the same, and nobody is accepted for a while
//!   too many of this address             turned away
//! ```
//!
//! Nobody is lost by waiting: who is not accepted stays in the listener's queue.

use super::patient::SLICE;
use super::{Driver, NOT_A_CONNECTION};
use crate::clock::monotonic;
use crate::driver::places::Places;
use crate::driver::sockets::retry;
use crate::port::{Accepted, Client, Handler, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, SocketFlags};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Clients accepted in one turn from a listener, whatever time there is.
const ACCEPTED_MAX: usize = 4096;
/// For how long no client is accepted when the process or the system has no file descriptors or
/// memory left for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// For how long nobody is asked to make room when nobody could.
const CROWDED_PAUSE: Duration = Duration::from_millis(20);

impl Driver {
    /// Lets in clients of one listener, two at least and others while it is not later than `until`.
    /// Whether it stopped because none was left.
    pub(super) fn accept(&mut self, handler: &mut dyn Handler, index: u32, until: Time) -> bool {
        let now = self.sockets.now;
        let mut has_asked = false;
        for count in 0..ACCEPTED_MAX {
            if count >= SLICE && monotonic() >= until {
                return false;
            }
            let is_full = !self.has_place();
            if is_full && (has_asked || !self.make_room(handler)) {
                return false;
            }
            has_asked |= is_full;
            let Some(Some((listener, role))) = self.listeners.get(index as usize) else {
                // It was closed when the others' turn was over.
                return true;
            };
            let taken = self.places.as_ref().map(|places| places.take());
            if matches!(taken, Some(None)) {
                // Another worker took the last one meanwhile.
                self.crowded_until = self.sockets.now + CROWDED_PAUSE;
                return false;
            }
            let accepted = retry(|| {
                net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
            });
            let (socket, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(Errno::AGAIN) => return true,
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    self.lacks(errno.into());
                    self.ask_for_room(handler);
                    return false;
                }
                // This client is gone already, or the network lost it; the next may be well.
                Err(_) => continue,
            };
            let role = *role;
            let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
            let peer = peer.map_or(Client::Unix, Client::At);
            let mut place = None;
            if let (Some(addresses), Some(address)) = (&self.addresses, peer.address()) {
                place = addresses.enter(address);
                if place.is_none() {
                    let max = addresses.max();
                    if self.may_warn() {
                        tracing::warn!(
                            %address,
                            connections_per_address_max = max,
                            "an address has all the connections that it may have, and \
                             further ones are closed: raise connections_per_address_max if many \
                             share the address, as behind a proxy"
                        );
                    }
                    continue;
                }
            }
            let connection = match self
                .sockets
                .insert_accepted(socket, (place, taken.flatten()))
            {
                Ok(connection) => connection,
                Err(error) => {
                    self.lacks(error);
                    return false;
                }
            };
            let accepted = Accepted {
                connection,
                role,
                peer,
            };
            handler.opened(&mut self.sockets, accepted, now);
        }
        false
    }

    /// There is no file, or no memory, for another client. Those who wait stay in the queue and the
    /// listener ready: asking again at once would only burn the core.
    fn lacks(&mut self, error: io::Error) {
        self.accept_after = self.sockets.now + ACCEPT_PAUSE;
        if self.may_warn() {
            let connections = self.sockets.accepted;
            tracing::warn!(%error, connections, "clients wait: there is nothing left for another");
        }
    }

    /// Whether there is a place for another client, here and in the process.
    pub(super) fn has_place(&self) -> bool {
        let is_free = |places: &Arc<Places>| places.has_room();
        self.sockets.accepted < self.connections_max && self.places.as_ref().is_none_or(is_free)
    }

    /// A client waits, and there is no place: asks for one. Whether there is one now.
    fn make_room(&mut self, handler: &mut dyn Handler) -> bool {
        self.ask_for_room(handler);
        let has_room = self.has_place();
        if !has_room {
            self.crowded_until = self.sockets.now + CROWDED_PAUSE;
            if self.may_warn() {
                let connections = self.sockets.accepted;
                tracing::warn!(
                    connections,
                    "clients wait: all the connections that this worker may have are in use: {}",
                    self.crowded_cure
                );
            }
        }
        has_room
    }

    /// Drops what lingers, and has the handler close what can be missed.
    fn ask_for_room(&mut self, handler: &mut dyn Handler) {
        self.sockets.cut_lingering();
        let heard = self.heard_until();
        self.sockets.is_crowded = true;
        handler.crowded(&mut self.sockets, heard);
        self.sockets.is_crowded = false;
    }

    /// Whether the log may be told of what keeps clients waiting; then not again for a while.
    fn may_warn(&mut self) -> bool {
        self.warnings.line(self.sockets.now).is_some()
    }

    /// Whether a client can be let in, or room be asked for.
    fn may_accept(&self) -> bool {
        let now = self.sockets.now;
        let has_room = self.has_place();
        (has_room || now >= self.crowded_until) && now >= self.accept_after
    }

    /// Has epoll tell of clients if one can be let in, and otherwise not, lest the loop spins.
    pub(super) fn listen_or_not(&mut self) -> io::Result<()> {
        let accepting = self.may_accept();
        if accepting == self.accepting {
            return Ok(());
        }
        let interest = if accepting {
            EventFlags::IN
        } else {
            EventFlags::empty()
        };
        for (index, listener) in self.listeners.iter().enumerate() {
            if let Some((listener, _)) = listener {
                let data = EventData::new_u64(NOT_A_CONNECTION | index as u64);
                epoll::modify(&self.sockets.epoll, listener, data, interest)?;
            }
        }
        self.accepting = accepting;
        Ok(())
    }

    /// Lets in those who wait, then closes the listeners: closed with clients in its queue, a
    /// listener would reset them. Where not all can be let in yet, it stays open until they are.
    pub(super) fn close_listeners(&mut self, handler: &mut dyn Handler) {
        for index in 0..self.listeners.len() {
            if self.listeners[index].is_some()
                && self.may_accept()
                && self.accept(handler, index as u32, Time::NEVER)
                && let Some((listener, _)) = self.listeners[index].take()
            {
                // Others may have the same socket, which epoll would go on telling of.
                let removed = epoll::delete(&self.sockets.epoll, &listener);
                debug_assert_eq!(removed, Ok(()), "it was added");
            }
        }
        if !self.told_closed && self.listeners.iter().all(Option::is_none) {
            self.told_closed = true;
            handler.listeners_closed();
        }
    }
}
