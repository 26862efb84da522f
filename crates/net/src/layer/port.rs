//! The port that a layer gives its handler.

use super::codec::{Codec, Codecs};
use super::state::{Phase, State};
use crate::outgoing::Flushed;
use crate::port::{ConnectionId, Datagram, DatagramId, Peer, Port, Sent, Time, WallClock};
use std::io::{self, IoSlice};

/// Slices that are sealed together at most; those behind them follow by themselves.
const SLICES_MAX: usize = 16;

/// The driver's port, with the codecs before it.
pub(super) struct LayerPort<'a, S: Codecs> {
    pub(super) port: &'a mut dyn Port,
    pub(super) state: &'a mut State<S>,
}

impl<S: Codecs> Port for LayerPort<'_, S> {
    fn send(&mut self, id: ConnectionId, bytes: &[u8]) -> Sent {
        self.send_vectored(id, &[IoSlice::new(bytes)])
    }

    fn send_vectored(&mut self, id: ConnectionId, slices: &[IoSlice<'_>]) -> Sent {
        let State { links, record, .. } = &mut *self.state;
        let Some(link) = links.get_mut(id) else {
            return match slices {
                [bytes] => self.port.send(id, bytes),
                slices => self.port.send_vectored(id, slices),
            };
        };
        match link.phase {
            Phase::Connecting => return Sent::Taken(0),
            Phase::Closing => return Sent::Gone,
            Phase::Open => {}
        }
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut taken = 0;
        'all: for slices in slices.chunks(SLICES_MAX) {
            let mut rest = [IoSlice::new(&[]); SLICES_MAX];
            rest[..slices.len()].copy_from_slice(slices);
            let mut rest = &mut rest[..slices.len()];
            // Leaves out those that are empty, too.
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() && link.held.is_empty() {
                record.clear();
                let sealed = link.codec.seal(rest, record);
                if sealed == 0 {
                    debug_assert!(!link.codec.is_ready(), "a codec that is ready seals");
                    break 'all;
                }
                IoSlice::advance_slices(&mut rest, sealed);
                taken += sealed;
                if link.held.send(self.port, id, record) == Flushed::Gone {
                    self.state.forget(id);
                    return Sent::Gone;
                }
            }
        }
        link.wants_write |= taken < length;
        Sent::Taken(taken)
    }

    fn close(&mut self, id: ConnectionId) {
        let State { links, record, .. } = &mut *self.state;
        let Some(link) = links.get_mut(id) else {
            return self.port.close(id);
        };
        if link.phase == Phase::Closing {
            return;
        }
        let was_ready = link.codec.is_ready();
        record.clear();
        link.codec.end(record);
        match link.held.send(self.port, id, record) {
            Flushed::Some if was_ready => {
                link.phase = Phase::Closing;
                let until = self.state.now + self.state.linger;
                self.state.closing.set(id.slot(), until);
            }
            // Where nobody was greeted, nothing is owed.
            Flushed::All | Flushed::Some => {
                self.port.close(id);
                self.state.forget(id);
            }
            Flushed::Gone => drop(self.state.forget(id)),
        }
    }

    fn abort(&mut self, id: ConnectionId) {
        // One that the handler closed is not its to abort any more.
        let phase = self.state.links.get(id).map(|link| link.phase);
        if phase != Some(Phase::Closing) {
            self.port.abort(id);
            self.state.forget(id);
        }
    }

    fn pause(&mut self, id: ConnectionId) {
        self.set_paused(id, true);
    }

    fn resume(&mut self, id: ConnectionId) {
        self.set_paused(id, false);
    }

    fn unanswered(&mut self, id: ConnectionId) {
        self.port.unanswered(id);
    }

    fn has_news(&mut self, id: ConnectionId) -> bool {
        self.port.has_news(id)
    }

    fn connect(&mut self, peer: &Peer) -> io::Result<ConnectionId> {
        let Some(codec) = self.state.codecs.connecting(peer) else {
            // Where it is to be sealed all the same, the driver refuses it.
            return self.port.connect(peer);
        };
        let id = self.port.connect(&peer.clone().sealed(None))?;
        self.state.add(id, codec, Phase::Connecting);
        Ok(id)
    }

    fn send_datagrams(&mut self, socket: DatagramId, datagrams: &[Datagram<'_>]) -> usize {
        self.port.send_datagrams(socket, datagrams)
    }

    fn pause_datagrams(&mut self, socket: DatagramId) {
        self.port.pause_datagrams(socket);
    }

    fn resume_datagrams(&mut self, socket: DatagramId) {
        self.port.resume_datagrams(socket);
    }

    fn stop_accepting(&mut self) {
        self.port.stop_accepting();
    }

    fn clock(&self, event: Time) -> Time {
        self.port.clock(event)
    }

    fn wall_clock(&self) -> WallClock {
        self.port.wall_clock()
    }
}

impl<S: Codecs> LayerPort<'_, S> {
    fn set_paused(&mut self, id: ConnectionId, paused: bool) {
        if let Some(link) = self.state.links.get_mut(id) {
            if link.phase == Phase::Closing {
                return;
            }
            if link.is_paused && !paused && link.codec.has_ended() {
                // What the driver will not tell again.
                self.state.resumed.push(id);
            }
            link.is_paused = paused;
        }
        match paused {
            true => self.port.pause(id),
            false => self.port.resume(id),
        }
    }
}
