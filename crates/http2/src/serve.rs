//! Carriers are seen to: what came over them is told the handler, and what it does goes out.

use crate::carrier::{Asked, Over};
use crate::multiplexed::Multiplexed;
use crate::request::write_head;
use crate::state::{inner_id, key_of};
use crate::stream::{Came, Stream};
use h2::Reason;
use http::Method;
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Key, Port, Role, TURN_MAX};
use std::io::ErrorKind;
use std::task::{Context, Waker};

/// Carriers are seen to so often in one call; then others have their turn first.
const ROUNDS: usize = 256;
/// The clock is looked at each so many times.
const CLOCK_EVERY: usize = 4;

impl<H: Handler> Multiplexed<H> {
    /// Sees to carriers until none has anything to do, or others have waited long enough.
    pub(crate) fn settle(&mut self, port: &mut dyn Port) {
        let event = self.state.now;
        let mut began = None;
        for round in 1..=ROUNDS {
            self.tell_lost(port);
            self.state.widen_waiting();
            let Some(id) = self.state.busy.pop_front() else {
                return;
            };
            self.serve(port, id);
            if round % CLOCK_EVERY == 0 {
                let now = port.clock(event);
                if now.since(*began.get_or_insert(now)) >= TURN_MAX {
                    return;
                }
            }
        }
    }

    /// Moves one carrier on, and tells the handler what came of it.
    fn serve(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let now = self.state.now;
        let Some(carrier) = self.state.carrier(id) else {
            return;
        };
        carrier.is_busy = false;
        if carrier.is_closing {
            return;
        }
        let over = carrier.drive(port, id, now);
        if std::mem::take(&mut carrier.is_sent_away) {
            let peer = carrier.peer;
            self.state.say_sent_away(peer);
        }
        if over == Some(Over::Gone) {
            // Before anything is told that may open a connection, which may have its place.
            return self.end(port, id, Over::Gone);
        }
        self.state.admit(id);
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
        let Some(carrier) = self.state.carrier(id) else {
            return;
        };
        if carrier.asked.is_empty() {
            return;
        }
        let mut room = match std::mem::take(&mut carrier.may_begin) {
            true => self.state.room(id),
            false => 0,
        };
        while let Some(asked) = self.state.next_asked(id, room > 0) {
            if !self.begin(port, id, asked) {
                self.state.give_share(id);
                self.state.mark(id);
                continue;
            }
            room = room.saturating_sub(1);
            if room == 0 {
                // Some may have been answered at once.
                room = self.state.room(id);
            }
        }
    }

    /// Gives the handler a request. Whether it is one.
    fn begin(&mut self, port: &mut dyn Port, id: ConnectionId, asked: Asked) -> bool {
        let Asked {
            request,
            mut respond,
            ..
        } = asked;
        let now = self.state.now;
        let by_stream = self.state.options.role;
        let Some(carrier) = self.state.carrier(id) else {
            return false;
        };
        let (role, peer) = (Role(carrier.role.0 | by_stream.0), carrier.peer);
        if respond
            .poll_reset(&mut Context::from_waker(Waker::noop()))
            .is_ready()
        {
            carrier.has_reset();
            return false;
        }
        let (parts, content) = request.into_parts();
        let mut head = std::mem::take(&mut self.bytes);
        head.clear();
        let written = write_head(&parts, !content.is_end_stream(), &mut head);
        let inner = match written {
            Err(_) => {
                respond.send_reset(Reason::PROTOCOL_ERROR);
                None
            }
            Ok(is_chunked) => self.state.add_stream(id, |mark| {
                let to_head = parts.method == Method::HEAD;
                Stream::new(id, mark, respond, to_head, content, is_chunked)
            }),
        };
        if let Some(connection) = inner {
            let accepted = Accepted {
                connection,
                role,
                peer,
            };
            self.tell(port, |handler, port| handler.opened(port, accepted, now));
            if self.state.stream(key_of(connection)).is_some() {
                self.tell(port, |handler, port| {
                    handler.received(port, connection, &head, now);
                });
            }
        }
        self.bytes = head;
        inner.is_some()
    }

    /// Tells the handler what came over a carrier's streams, once each. Whether there was anything.
    fn tell_streams(&mut self, port: &mut dyn Port, id: ConnectionId) -> bool {
        let mut keys = std::mem::take(&mut self.keys);
        self.state.take_ready(id, &mut keys);
        let mut has_told = false;
        for key in keys.drain(..) {
            has_told |= self.tell_stream(port, key);
        }
        self.keys = keys;
        has_told
    }

    /// Tells the handler what came over a stream, and that it may send again. Whether it was told.
    fn tell_stream(&mut self, port: &mut dyn Port, key: Key) -> bool {
        let (now, inner) = (self.state.now, inner_id(key));
        let Some(stream) = self.state.stream(key) else {
            return false;
        };
        let id = stream.carrier;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let had_content = stream.has_content();
        let came = stream.look(&mut bytes);
        let (is_long, has_content) = (stream.is_long(), stream.has_content());
        self.state.has_place |= had_content && !has_content;
        if is_long {
            self.state.widen(id);
        }
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
        let mut has_told = came != Came::Nothing;
        let takes_again = self.state.stream(key).is_some_and(|it| it.takes_again());
        let Some(carrier) = self.state.carrier(id).filter(|_| takes_again) else {
            return has_told;
        };
        if carrier.is_blocked() {
            carrier.puts_off = true;
            return has_told;
        }
        carrier.may_begin = true;
        if let Some(stream) = self.state.stream(key) {
            stream.wants_write = false;
            has_told = true;
            self.tell(port, |handler, port| handler.writable(port, inner, now));
        }
        has_told
    }

    /// Tells of the streams whose carriers are forgotten.
    pub(crate) fn tell_lost(&mut self, port: &mut dyn Port) {
        while let Some(key) = self.state.lost.pop() {
            self.lose(port, key);
        }
    }

    /// The peer has taken a request back, or has left.
    pub(crate) fn lose(&mut self, port: &mut dyn Port, key: Key) {
        let now = self.state.now;
        let Some(stream) = self.state.remove_stream(key) else {
            return;
        };
        match self.state.carrier(stream.carrier) {
            Some(carrier) => carrier.has_reset(),
            None => self.state.figures.resets.add(1),
        }
        drop(stream);
        let how = Ended::Failed(ErrorKind::ConnectionReset);
        let inner = inner_id(key);
        self.tell(port, |handler, port| handler.ended(port, inner, how, now));
    }
}
