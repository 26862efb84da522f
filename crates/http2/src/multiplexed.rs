//! The handler that a driver sees, and what it tells the one behind.

use crate::carrier::{Carrier, Over, QUEUED_MAX, WIDE_WINDOW, WINDOW};
use crate::figures::Figures;
use crate::frames::PREFACE;
use crate::options::Options;
use crate::pipe::OUTPUT_MAX;
use crate::port::StreamsPort;
use crate::state::{Outer, State, WIDE_MAX};
use crate::stream::SEND_MAX;
use rhythm_net::{
    Accepted, ConnectionId, Datagram, DatagramId, Ended, Flushed, Handler, Key, Port, Time, Token,
    Worker,
};
use std::io::ErrorKind;
use std::sync::Arc;

/// The handler does what there is to do so often in one call.
const IDLE_ROUNDS: usize = 4;
/// Carriers whose time is over are seen to so many at a time: to close one takes the system a
/// while, in which nobody is served.
const LATE_MAX: usize = 8;

/// A handler whose clients may speak HTTP/2, too.
pub struct Multiplexed<H> {
    pub(crate) handler: H,
    pub(crate) state: State,
    /// The handler was told something behind which nothing has told it that this was all.
    owes_idle: bool,
    /// Used again: the streams of a carrier that is seen to, and a request's bytes.
    pub(crate) keys: Vec<Key>,
    pub(crate) bytes: Vec<u8>,
}

/// The most memory of a connection that speaks HTTP/2, beside that of its streams: h2's two buffers
/// and tables of names, what one read brought, what came and is not taken, what is sent of us at
/// once, and what goes out.
pub const CARRIER_BYTES: usize = (16 + 8 + 8) * 1024
    + 64 * 1024
    + content_bytes(WINDOW)
    + QUEUED_MAX
    + SEND_MAX
    + 2 * OUTPUT_MAX;

/// The most memory, beside that, of all connections of a handler whose clients may send further
/// ahead.
pub const UPLOAD_BYTES: usize = WIDE_MAX * content_bytes(WIDE_WINDOW as usize);

/// What contents take of which so many bytes may come ahead: h2 bounds what short pieces of them
/// take beside.
const fn content_bytes(window: usize) -> usize {
    window + window / 2
}

impl<H: Handler> Multiplexed<H> {
    /// In front of `handler` at `now`. What there is of HTTP/2 is counted in `figures`.
    pub fn new(handler: H, options: Options, figures: Arc<Figures>, now: Time) -> Multiplexed<H> {
        // Those of a handler before this one, which a panic has ended, are gone.
        figures.connections.set(0);
        figures.streams.set(0);
        Multiplexed {
            handler,
            state: State::new(options, figures, now),
            owes_idle: false,
            keys: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// The handler, for tests.
    #[cfg(test)]
    pub(crate) fn behind(&self) -> &H {
        &self.handler
    }

    #[cfg(test)]
    pub(crate) fn behind_mut(&mut self) -> &mut H {
        &mut self.handler
    }

    /// Has the handler do something with its port.
    pub(crate) fn tell(&mut self, port: &mut dyn Port, event: impl FnOnce(&mut H, &mut dyn Port)) {
        let state = &mut self.state;
        self.owes_idle = true;
        event(&mut self.handler, &mut StreamsPort { port, state });
    }

    /// The same, then sees to the carriers that have something to do by it.
    pub(crate) fn handle(
        &mut self,
        port: &mut dyn Port,
        now: Time,
        event: impl FnOnce(&mut H, &mut dyn Port),
    ) {
        self.state.now = now;
        self.tell(port, event);
        self.settle(port);
    }

    /// A carrier is over, and with it all of its streams.
    pub(crate) fn end(&mut self, port: &mut dyn Port, id: ConnectionId, over: Over) {
        let Some(carrier) = self.state.carrier(id) else {
            return;
        };
        if over == Over::Ended && carrier.is_blocked() {
            carrier.is_closing = true;
            let streams = carrier.streams.clone();
            self.state.lost.extend(streams);
            self.tell_lost(port);
            return self.state.set_timer(id);
        }
        if over == Over::Ended {
            port.close(id);
        }
        // Before its streams are told of, which may have a connection opened in its place.
        self.state.forget_carrier(id);
        self.tell_lost(port);
    }

    /// Says a carrier's last word and ends it: who does not take that at once is not waited for.
    /// `leave` has the port end it then: what left before, the port may still have.
    pub(crate) fn end_at_once(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        leave: fn(&mut dyn Port, ConnectionId),
    ) {
        let now = self.state.now;
        let Some(carrier) = self.state.carrier(id) else {
            return;
        };
        carrier.say_last_word();
        let over = match carrier.drive(port, id, now) {
            Some(Over::Gone) => Over::Gone,
            _ if carrier.is_blocked() => {
                leave(port, id);
                Over::Gone
            }
            _ => Over::Ended,
        };
        self.end(port, id, over);
    }

    /// Looks whether a connection begins as HTTP/2 does. What the handler is to have of it, if it
    /// does not; `None`: nothing yet, or not as it is.
    fn sniff<'b>(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        bytes: &'b [u8],
        joined: &'b mut Vec<u8>,
    ) -> Option<&'b [u8]> {
        let plain = self.state.plain(id)?;
        let Some(before) = plain.preface else {
            return Some(bytes);
        };
        let rest = &PREFACE[before..];
        let length = rest.len().min(bytes.len());
        if rest[..length] != bytes[..length] {
            plain.preface = None;
            if before == 0 {
                return Some(bytes);
            }
            joined.extend_from_slice(&PREFACE[..before]);
            joined.extend_from_slice(bytes);
            return Some(joined);
        }
        plain.preface = Some(before + length);
        if before + length == PREFACE.len() {
            self.take_over(port, id, &bytes[length..]);
        }
        None
    }

    /// Makes a connection a carrier: to the handler it is gone.
    fn take_over(&mut self, port: &mut dyn Port, id: ConnectionId, rest: &[u8]) {
        let now = self.state.now;
        let Some(plain) = self.state.forget_plain(id) else {
            return;
        };
        let State {
            options, figures, ..
        } = &self.state;
        let client = (plain.peer, (options.client)(plain.peer, id));
        let mut carrier = Carrier::new(plain.role, client, options, figures.clone(), now);
        if self.state.draining.is_some() {
            carrier.leave();
        }
        carrier.take_in(PREFACE);
        carrier.take_in(rest);
        self.state
            .outer
            .insert(id, Outer::Carrier(Box::new(carrier)));
        self.state.carriers += 1;
        let carriers = self.state.carriers as u64;
        self.state.figures.connections.set(carriers);
        let how = Ended::Failed(ErrorKind::ConnectionReset);
        self.tell(port, |handler, port| {
            handler.ended(port, plain.inner, how, now)
        });
        self.state.mark(id);
    }
}

impl<H: Handler> Handler for Multiplexed<H> {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        let is_on = self.state.options.is_on;
        let Accepted {
            connection,
            role,
            peer,
        } = accepted;
        let connection = self.state.add(connection, role, peer, is_on);
        let accepted = Accepted {
            connection,
            ..accepted
        };
        self.handle(port, now, |handler, port| {
            handler.opened(port, accepted, now)
        });
    }

    fn crowded(&mut self, port: &mut dyn Port, now: Time) {
        self.state.now = now;
        // Whoever has no request under way can be missed, whatever he speaks.
        if let Some(id) = self.state.longest_idle() {
            // All that was answered has left, and is on its way.
            self.end_at_once(port, id, |port, id| port.close(id));
        }
        self.handle(port, now, |handler, port| handler.crowded(port, now));
    }

    fn listeners_closed(&mut self) {
        self.state.drain();
        self.handler.listeners_closed();
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.state.now = now;
        if let Some(carrier) = self.state.carrier(id) {
            if !carrier.is_closing {
                carrier.take_in(bytes);
                self.state.mark(id);
            }
            return self.settle(port);
        }
        let mut joined = Vec::new();
        match self.sniff(port, id, bytes, &mut joined) {
            None => self.settle(port),
            Some(bytes) => {
                let Some(inner) = self.state.plain(id).map(|plain| plain.inner) else {
                    return;
                };
                self.handle(port, now, |handler, port| {
                    handler.received(port, inner, bytes, now);
                });
            }
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.state.now = now;
        if let Some(carrier) = self.state.carrier(id) {
            match how {
                Ended::Failed(_) => self.end(port, id, Over::Gone),
                Ended::PeerFinished if carrier.is_closing => {}
                Ended::PeerFinished => {
                    carrier.end_input();
                    self.state.mark(id);
                }
            }
            return self.settle(port);
        }
        let Some(plain) = self.state.plain(id) else {
            return;
        };
        let inner = plain.inner;
        let began = plain.preface.take().filter(|begun| *begun > 0);
        if let (Some(begun), Ended::PeerFinished) = (began, how) {
            self.tell(port, |handler, port| {
                handler.received(port, inner, &PREFACE[..begun], now);
            });
            if self.state.plain(id).is_none() {
                // It has closed the connection.
                return self.settle(port);
            }
        }
        if let Ended::Failed(_) = how {
            self.state.forget_plain(id);
        }
        self.handle(port, now, |handler, port| {
            handler.ended(port, inner, how, now)
        });
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.state.now = now;
        if let Some(carrier) = self.state.carrier(id) {
            match carrier.writable(port, id, now) {
                Flushed::Gone => self.end(port, id, Over::Gone),
                Flushed::All if carrier.is_closing => self.end(port, id, Over::Ended),
                Flushed::Some if carrier.is_closing => self.state.set_timer(id),
                _ => self.state.mark(id),
            }
            return self.settle(port);
        }
        if let Some(inner) = self.state.plain(id).map(|plain| plain.inner) {
            self.handle(port, now, |handler, port| {
                handler.writable(port, inner, now)
            });
        }
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if let Some(inner) = self.state.plain(id).map(|plain| plain.inner) {
            self.handle(port, now, |handler, port| {
                handler.connected(port, inner, now)
            });
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
            handler.datagrams(port, socket, datagrams, now);
        });
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        self.handle(port, now, |handler, port| {
            handler.notified(port, token, now)
        });
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.state.now = now;
        let mut late = Vec::new();
        (self.state.timers).expire_some(now, LATE_MAX, |slot| late.push(slot));
        for slot in late {
            let Some(id) = self.state.outer.id_at(slot) else {
                continue;
            };
            let Some(carrier) = self.state.carrier(id) else {
                continue;
            };
            if carrier.is_busy && !carrier.is_closing {
                // It is seen to below, and its time set anew.
            } else if carrier.is_blocked() {
                port.abort(id);
                self.end(port, id, Over::Gone);
            } else if !carrier.is_idle() {
                // A request has waited for long enough.
                self.state.mark(id);
            } else {
                carrier.say_last_word();
                let over = carrier.drive(port, id, now).unwrap_or(Over::Ended);
                self.end(port, id, over);
            }
        }
        match self.handler.wake_at().is_some_and(|at| at <= now) {
            true => self.handle(port, now, |handler, port| handler.tick(port, now)),
            false => self.settle(port),
        }
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.state.now = now;
        // What is sent may make streams take more, of which the handler is told behind its idle:
        // then it has another, now or in a turn that begins at once.
        for _ in 0..IDLE_ROUNDS {
            self.tell(port, |handler, port| handler.idle(port, now));
            self.owes_idle = false;
            self.settle(port);
            if !self.owes_idle {
                break;
            }
        }
        self.see_to_the_end(port);
    }

    fn turn_ended(&mut self, now: Time) {
        self.handler.turn_ended(now);
    }

    fn wake_at(&self) -> Option<Time> {
        if self.owes_idle || !(self.state.busy.is_empty() && self.state.lost.is_empty()) {
            return Some(Time::ZERO);
        }
        let carriers = [self.state.timers.wake_at(), self.state.ends_at()];
        let times = carriers.into_iter().chain([self.handler.wake_at()]);
        times.flatten().min()
    }

    fn finished(&self) -> bool {
        self.handler.finished() && self.state.carriers == 0
    }
}

impl<W: Worker> Worker for Multiplexed<W> {
    type Command = W::Command;

    fn obey(&mut self, port: &mut dyn Port, command: W::Command, now: Time) {
        self.handle(port, now, |worker, port| worker.obey(port, command, now));
    }
}
