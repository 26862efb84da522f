//! The handler that a driver sees, and what it tells the one behind.

use crate::carrier::{Carrier, Over, QUEUED_MAX};
use crate::figures::Figures;
use crate::options::Options;
use crate::pipe::OUTPUT_MAX;
use crate::port::StreamsPort;
use crate::request::write_head;
use crate::state::{Outer, State, inner_id, key_of};
use crate::stream::{Came, SEND_MAX, Stream};
use h2::Reason;
use http::Method;
use rhythm_net::{
    Accepted, ConnectionId, Datagram, DatagramId, Ended, Flushed, Handler, Key, Port, Role, Time,
    Token, Worker,
};
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::{Context, Waker};

/// The first bytes of a connection that speaks HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// So many requests of a carrier wait for their answers, or for its peer to take them: then the
/// others wait here until some do not, so that nobody has a hundred times another's share of what
/// is behind. Answers that are made in pieces over a long time (events) do not wait.
const OWED_MAX: usize = 16;
/// The handler does what there is to do so often in one call.
const IDLE_ROUNDS: usize = 4;
/// Carriers are seen to so often in one call; then others have their turn first.
const ROUNDS: usize = 256;

/// A handler whose clients may speak HTTP/2, too.
pub struct Multiplexed<H> {
    handler: H,
    state: State,
    /// The handler was told something behind which nothing has told it that this was all.
    owes_idle: bool,
    /// Used again: the streams of a carrier that is seen to, and a request's bytes.
    keys: Vec<Key>,
    bytes: Vec<u8>,
}

/// The most memory of a connection that speaks HTTP/2, beside that of its streams: h2's two buffers
/// and tables of names, what came and is not taken in, what is sent of us at once, and what goes
/// out.
pub const CARRIER_BYTES: usize =
    (16 + 8 + 8) * 1024 + 2 * 64 * 1024 + QUEUED_MAX + SEND_MAX + 2 * OUTPUT_MAX;

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
    fn tell(&mut self, port: &mut dyn Port, event: impl FnOnce(&mut H, &mut dyn Port)) {
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

    /// Sees to carriers until none has anything to do, or others have waited long enough.
    fn settle(&mut self, port: &mut dyn Port) {
        for _ in 0..ROUNDS {
            let Some(id) = self.state.busy.pop_front() else {
                return;
            };
            self.serve(port, id);
        }
    }

    /// Moves one carrier on, and tells the handler what came of it.
    fn serve(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let (now, is_draining) = (self.state.now, self.state.is_draining);
        let Some(carrier) = self.state.carrier(id) else {
            return;
        };
        carrier.is_busy = false;
        if carrier.is_closing {
            return;
        }
        if is_draining {
            // Also where it had not greeted when all others were told.
            carrier.say_farewell();
        }
        let over = carrier.drive(port, id, now);
        if std::mem::take(&mut carrier.is_sent_away) {
            let peer = carrier.peer;
            self.state.say_sent_away(peer);
        }
        self.state.refuse_too_many(id);
        self.begin_streams(port, id);
        let has_told = self.tell_streams(port, id);
        if let Some(over) = over {
            return self.end(port, id, over);
        }
        let Some(carrier) = self.state.carrier(id) else {
            return;
        };
        if has_told {
            return self.state.mark(id);
        }
        let waits = carrier.unread() > 0;
        if waits != std::mem::replace(&mut carrier.is_paused, waits) {
            match waits {
                true => port.pause(id),
                false => port.resume(id),
            }
        }
        if carrier.is_idle() && !carrier.is_busy {
            carrier.shrink();
        }
        self.state.set_timer(id);
    }

    /// Gives the handler the requests that have come over a carrier.
    fn begin_streams(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let now = self.state.now;
        let cx = &mut Context::from_waker(Waker::noop());
        let mut owed = self.state.owed(id);
        let by_stream = self.state.options.role;
        while owed < OWED_MAX
            && let Some(carrier) = self.state.carrier(id)
            && let Some((request, mut respond)) = carrier.asked.pop_front()
        {
            let (role, peer) = (Role(carrier.role.0 | by_stream.0), carrier.peer);
            if respond.poll_reset(cx).is_ready() {
                carrier.has_reset();
                self.state.mark(id);
                continue;
            }
            if self.state.streams >= self.state.options.all_streams_max {
                respond.send_reset(Reason::REFUSED_STREAM);
                self.state.figures.refused.add(1);
                self.state.mark(id);
                continue;
            }
            let (parts, content) = request.into_parts();
            let mut head = std::mem::take(&mut self.bytes);
            head.clear();
            match write_head(&parts, !content.is_end_stream(), &mut head) {
                Err(_) => {
                    respond.send_reset(Reason::PROTOCOL_ERROR);
                    self.state.mark(id);
                }
                Ok(is_chunked) => {
                    let to_head = parts.method == Method::HEAD;
                    let stream = Stream::new(id, respond, to_head, content, is_chunked);
                    let inner = self.state.add_stream(stream);
                    owed += 1;
                    let accepted = Accepted {
                        connection: inner,
                        role,
                        peer,
                    };
                    self.tell(port, |handler, port| handler.opened(port, accepted, now));
                    if self.state.stream(key_of(inner)).is_some() {
                        self.tell(port, |handler, port| {
                            handler.received(port, inner, &head, now);
                        });
                    }
                }
            }
            self.bytes = head;
            if owed == OWED_MAX {
                // Some may have been answered at once.
                owed = self.state.owed(id);
            }
        }
        // Those that the handler has now are counted as streams.
        self.state.count_asked(id);
    }

    /// Tells the handler what came over a carrier's streams, once each. Whether there was anything.
    fn tell_streams(&mut self, port: &mut dyn Port, id: ConnectionId) -> bool {
        let now = self.state.now;
        let cx = &mut Context::from_waker(Waker::noop());
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        if let Some(carrier) = self.state.carrier(id) {
            keys.extend(&carrier.streams);
            // Whoever is told last, because the socket was full before, is told first soon.
            carrier.streams.rotate_left(usize::from(keys.len() > 1));
        }
        let mut has_told = false;
        for key in keys.iter().copied() {
            let inner = inner_id(key);
            let Some(stream) = self.state.stream(key) else {
                continue;
            };
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes.clear();
            let came = match stream.is_reset(cx) {
                true => Came::Failed,
                false => stream.receive(cx, &mut bytes),
            };
            match came {
                Came::Nothing => {}
                Came::Bytes => {
                    self.tell(port, |handler, port| {
                        handler.received(port, inner, &bytes, now);
                    });
                }
                Came::Failed => self.lose(port, key),
            }
            self.bytes = bytes;
            has_told |= came != Came::Nothing;
            let is_blocked = self.state.carrier(id).is_none_or(|it| it.is_blocked());
            if let Some(stream) = self.state.stream(key)
                && !is_blocked
                && stream.takes_again()
            {
                stream.wants_write = false;
                has_told = true;
                self.tell(port, |handler, port| handler.writable(port, inner, now));
            }
        }
        self.keys = keys;
        has_told
    }

    /// The peer has taken a request back.
    fn lose(&mut self, port: &mut dyn Port, key: Key) {
        let now = self.state.now;
        let Some(stream) = self.state.remove_stream(key) else {
            return;
        };
        if let Some(carrier) = self.state.carrier(stream.carrier) {
            carrier.has_reset();
        }
        drop(stream);
        let how = Ended::Failed(ErrorKind::ConnectionReset);
        let inner = inner_id(key);
        self.tell(port, |handler, port| handler.ended(port, inner, how, now));
    }

    /// A carrier is over, and with it all of its streams.
    fn end(&mut self, port: &mut dyn Port, id: ConnectionId, over: Over) {
        while let Some(carrier) = self.state.carrier(id)
            && let Some(key) = carrier.streams.pop()
        {
            self.lose(port, key);
        }
        let Some(carrier) = self.state.carrier(id) else {
            return;
        };
        if over == Over::Ended && carrier.is_blocked() {
            carrier.is_closing = true;
            return self.state.set_timer(id);
        }
        if over == Over::Ended {
            port.close(id);
        }
        self.state.forget_carrier(id);
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
        let mut carrier = Carrier::new(plain.role, plain.peer, options, figures.clone(), now);
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

    /// The handler is done: so are the carriers.
    fn end_all(&mut self, port: &mut dyn Port) {
        let now = self.state.now;
        for id in self.state.carriers() {
            let over = self.state.carrier(id).and_then(|it| match it.is_closing {
                true => None,
                false => {
                    it.say_last_word();
                    it.drive(port, id, now).or(Some(Over::Ended))
                }
            });
            if let Some(over) = over {
                self.end(port, id, over);
            }
        }
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
            if let Some(carrier) = self.state.carrier(id) {
                carrier.say_last_word();
                carrier.drive(port, id, now);
            }
            self.end(port, id, Over::Ended);
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
        self.state.timers.expire(now, |slot| late.push(slot));
        for slot in late {
            let Some(id) = self.state.outer.id_at(slot) else {
                continue;
            };
            let Some(carrier) = self.state.carrier(id) else {
                continue;
            };
            if carrier.is_blocked() {
                port.abort(id);
                self.end(port, id, Over::Gone);
            } else if carrier.is_busy || !carrier.is_idle() {
                // Something came at the last moment.
                self.state.set_timer(id);
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
        if self.state.carriers > 0 && self.handler.finished() {
            self.end_all(port);
        }
    }

    fn turn_ended(&mut self, now: Time) {
        self.handler.turn_ended(now);
    }

    fn wake_at(&self) -> Option<Time> {
        if self.owes_idle || !self.state.busy.is_empty() {
            return Some(Time::ZERO);
        }
        let times = [self.handler.wake_at(), self.state.timers.wake_at()];
        times.into_iter().flatten().min()
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
