//! A layer between the driver and a handler, through which the bytes of connections pass in
//! records: the place of TLS.
//!
//! ```text
//!              received(sealed)              received(plain)
//!   +--------+ ---------------> +----------+ --------------> +---------+
//!   | driver |                  |  Layer   |                 | handler |
//!   +--------+ <--------------- | a Codec  | <-------------- +---------+
//!              send(record)     | for each |  send(plain)
//!                               +----------+
//! ```
//!
//! Towards the driver a [`Layer`] is a [`Handler`], and its own handler is given a [`Port`] that
//! keeps the contract of the driver's; neither can tell that the other is not next to it. What a
//! connection's [`Codec`] does is its own business and sans-I/O. What the layer sees to:
//!
//! - *Taken* means sealed: bytes that `send` took are in a record, and the record is the layer's.
//!   It seals a few at once, which leave in one sending, and goes on as long as the socket takes
//!   them whole; it holds the rest of those at most, and while it does, and until the peers have
//!   greeted each other, it takes nothing. `writable` follows then, as if the socket had been full.
//! - One `received` of the driver is one of the handler at most, so that a pause holds from the
//!   next one on, as it does without a layer.
//! - *Close* is kept behind the record held: the layer seals the codec's farewell, sends what it
//!   holds, then closes, or aborts if the peer does not take it in time. The handler is done with
//!   the connection at once. A socket tells that it takes some again when its peer has taken much
//!   of what is before it, so that time is what a peer has to take an answer, not its last record.
//! - When the handler has finished, who is to take what is held has a moment for it; and where
//!   clients wait for a place, those that have had a while for it give way first.
//! - The peer has finished when its codec's farewell says so. The end of the bytes without it is a
//!   failure (`UnexpectedEof`): somebody may have cut them off.
//! - A connection that fails while the layer sends by itself has *ended* for the handler, which did
//!   not send and so was not told by [`Sent::Gone`](crate::Sent::Gone).

mod codec;
mod port;
mod state;
#[cfg(test)]
mod tests;

pub use codec::{Codec, Codecs};

use crate::outgoing::Flushed;
use crate::port::{
    Accepted, ConnectionId, Datagram, DatagramId, Ended, Handler, Port, Time, Token,
};
use crate::table::ConnectionTable;
use crate::timer::TimerWheel;
use crate::workers::Worker;
use port::LayerPort;
use state::{Link, Phase, State};
use std::io::ErrorKind;
use std::time::Duration;

/// For how long what is held is sent when the handler has finished.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// A handler whose connections' bytes go through codecs.
pub struct Layer<H, S: Codecs> {
    handler: H,
    state: State<S>,
    /// What was opened of one `received`, used again for every one.
    plain: Vec<u8>,
}

impl<H: Handler, S: Codecs> Layer<H, S> {
    /// A layer above `handler` at `now`; a closed connection has `linger` to take what is held.
    pub fn new(handler: H, codecs: S, linger: Duration, now: Time) -> Layer<H, S> {
        Layer {
            handler,
            state: State {
                codecs,
                links: ConnectionTable::new(),
                resumed: Vec::new(),
                closing: TimerWheel::new(now),
                linger,
                ends_at: None,
                record: Vec::new(),
                now,
            },
            plain: Vec::new(),
        }
    }

    /// Has the handler do something with its port, and tells the ends that are due then.
    fn handle(
        &mut self,
        port: &mut dyn Port,
        now: Time,
        event: impl FnOnce(&mut H, &mut dyn Port),
    ) {
        self.state.now = now;
        let state = &mut self.state;
        event(&mut self.handler, &mut LayerPort { port, state });
        while let Some(id) = self.state.resumed.pop() {
            self.tell_end(port, id);
        }
    }

    /// Tells that the peer has finished, once, when it has and the connection is not paused.
    fn tell_end(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let now = self.state.now;
        let link = self.state.links.get_mut(id);
        let is_due = |link: &&mut Link<S::Codec>| {
            let is_open = link.phase == Phase::Open && !link.is_paused;
            is_open && link.codec.has_ended() && !link.has_told_end
        };
        if let Some(link) = link.filter(is_due) {
            link.has_told_end = true;
            self.handle(port, now, |handler, port| {
                handler.ended(port, id, Ended::PeerFinished, now);
            });
        }
    }

    /// The connection is gone, or is no good and closed here: tells the handler, if it has it.
    fn fail(&mut self, port: &mut dyn Port, id: ConnectionId, kind: ErrorKind, close: bool) {
        let now = self.state.now;
        if close {
            port.close(id);
        }
        if self.state.forget(id) != Some(Phase::Closing) {
            self.handle(port, now, |handler, port| {
                handler.ended(port, id, Ended::Failed(kind), now);
            });
        }
    }

    /// Takes in what came over a connection with a codec.
    fn take_in(&mut self, port: &mut dyn Port, id: ConnectionId, input: &[u8]) {
        let now = self.state.now;
        let State { links, record, .. } = &mut self.state;
        let Some(link) = links.get_mut(id) else {
            return;
        };
        if link.phase == Phase::Closing {
            return;
        }
        self.plain.clear();
        record.clear();
        let opened = link.codec.open(input, &mut self.plain, record);
        if !record.is_empty() && link.held.send(port, id, record) == Flushed::Gone {
            return self.fail(port, id, ErrorKind::BrokenPipe, false);
        }
        if let Err(kind) = opened {
            return self.fail(port, id, kind, true);
        }
        if link.phase == Phase::Connecting && link.codec.is_ready() {
            link.phase = Phase::Open;
            self.handle(port, now, |handler, port| handler.connected(port, id, now));
        }
        if !self.plain.is_empty() {
            // Not the handler's to see while it is lent to it.
            let plain = std::mem::take(&mut self.plain);
            self.handle(port, now, |handler, port| {
                handler.received(port, id, &plain, now)
            });
            self.plain = plain;
        }
        // Unless the handler closed it in one of these calls:
        self.tell_end(port, id);
        self.tell_writable(port, id);
    }

    /// Tells that bytes are taken again, if they were not and are now.
    fn tell_writable(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let now = self.state.now;
        let link = self.state.links.get_mut(id);
        let is_due = |link: &&mut Link<S::Codec>| {
            let takes = link.held.is_empty() && link.codec.is_ready();
            link.phase == Phase::Open && link.wants_write && takes
        };
        if let Some(link) = link.filter(is_due) {
            link.wants_write = false;
            self.handle(port, now, |handler, port| handler.writable(port, id, now));
        }
    }
}

impl<H: Handler, S: Codecs> Handler for Layer<H, S> {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        if let Some(codec) = self.state.codecs.accepted(&accepted) {
            self.state.add(accepted.connection, codec, Phase::Open);
        }
        self.handle(port, now, |handler, port| {
            handler.opened(port, accepted, now)
        });
    }

    fn crowded(&mut self, port: &mut dyn Port, now: Time) {
        self.state.now = now;
        // Of all connections these are missed least: the handler is done with them.
        if !self.state.make_room(port) {
            self.handle(port, now, |handler, port| handler.crowded(port, now));
        }
    }

    fn listeners_closed(&mut self) {
        self.handler.listeners_closed();
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.state.now = now;
        if self.state.links.get(id).is_some() {
            self.take_in(port, id, bytes);
        } else {
            self.handle(port, now, |handler, port| {
                handler.received(port, id, bytes, now)
            });
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.state.now = now;
        match (self.state.links.get(id), how) {
            (None, _) => {
                self.handle(port, now, |handler, port| handler.ended(port, id, how, now));
            }
            (Some(_), Ended::Failed(kind)) => self.fail(port, id, kind, false),
            // Its farewell has come; or the handler is done with it, and what is held still goes.
            (Some(link), Ended::PeerFinished)
                if link.codec.has_ended() || link.phase == Phase::Closing => {}
            (Some(_), Ended::PeerFinished) => self.fail(port, id, ErrorKind::UnexpectedEof, true),
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.state.now = now;
        let Some(link) = self.state.links.get_mut(id) else {
            return self.handle(port, now, |handler, port| handler.writable(port, id, now));
        };
        match (link.held.writable(port, id), link.phase) {
            (Flushed::All, Phase::Closing) => {
                port.close(id);
                self.state.forget(id);
            }
            (Flushed::All, _) => self.tell_writable(port, id),
            (Flushed::Some, _) => {}
            (Flushed::Gone, _) => self.fail(port, id, ErrorKind::BrokenPipe, false),
        }
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.state.now = now;
        if self.state.links.get(id).is_some() {
            // The codec greets first.
            self.take_in(port, id, b"");
        } else {
            self.handle(port, now, |handler, port| handler.connected(port, id, now));
        }
    }

    fn datagrams(
        &mut self,
        port: &mut dyn Port,
        socket: DatagramId,
        datagrams: &[Datagram<'_>],
        now: Time,
    ) {
        self.handle(port, now, |handler, port| {
            handler.datagrams(port, socket, datagrams, now)
        });
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        self.handle(port, now, |handler, port| {
            handler.notified(port, token, now)
        });
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.state.drop_late(port, now);
        if self.handler.wake_at().is_some_and(|at| at <= now) {
            self.handle(port, now, |handler, port| handler.tick(port, now));
        }
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.handle(port, now, |handler, port| handler.idle(port, now));
        self.state.ends_at = match self.handler.finished() && self.state.is_closing() {
            true => self.state.ends_at.or(Some(now + LAST_MOMENT)),
            false => None,
        };
    }

    fn turn_ended(&mut self, now: Time) {
        self.handler.turn_ended(now);
    }

    fn wake_at(&self) -> Option<Time> {
        let closing = [self.state.closing.wake_at(), self.state.ends_at];
        let times = closing.into_iter().chain([self.handler.wake_at()]);
        times.flatten().min()
    }

    fn finished(&self) -> bool {
        let is_late = || self.state.ends_at.is_some_and(|at| at <= self.state.now);
        self.handler.finished() && (!self.state.is_closing() || is_late())
    }
}

impl<W: Worker, S: Codecs> Worker for Layer<W, S> {
    type Command = W::Command;

    fn obey(&mut self, port: &mut dyn Port, command: W::Command, now: Time) {
        self.handle(port, now, |worker, port| worker.obey(port, command, now));
    }
}
