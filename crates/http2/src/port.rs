//! The port that the handler is given: the driver's, with streams among the connections.

use crate::carrier::Over;
use crate::state::{Inner, Outer, State, key_of};
use h2::Reason;
use rhythm_net::{
    Client, ConnectionId, Datagram, DatagramId, Key, Peer, Port, Role, Sent, Time, WallClock,
    send_each,
};
use std::io::{self, IoSlice};

/// See the module's text.
pub(crate) struct StreamsPort<'a> {
    pub(crate) port: &'a mut dyn Port,
    pub(crate) state: &'a mut State,
}

impl StreamsPort<'_> {
    /// The driver's name of a connection that goes through.
    fn plain(&self, inner: ConnectionId) -> Option<ConnectionId> {
        match self.state.inner.get(key_of(inner))? {
            Inner::Plain(id) => Some(*id),
            Inner::Stream(_) => None,
        }
    }

    /// What became of bytes given to a connection that goes through.
    fn sent(&mut self, id: ConnectionId, sent: Sent) -> Sent {
        if sent == Sent::Gone {
            self.state.forget_plain(id);
        }
        sent
    }

    /// Gives a stream bytes of its answer.
    fn send_on(&mut self, key: Key, bytes: &[u8]) -> Sent {
        let State {
            inner, outer, now, ..
        } = &mut *self.state;
        let Some(Inner::Stream(stream)) = inner.get_mut(key) else {
            return Sent::Gone;
        };
        let id = stream.carrier;
        let Some(Outer::Carrier(carrier)) = outer.get_mut(id) else {
            // It is lost with its carrier, as its handler knows from here on.
            self.state.remove_stream(key);
            return Sent::Gone;
        };
        if carrier.is_blocked() {
            stream.put_off(bytes.len());
            carrier.puts_off = true;
            return Sent::Taken(0);
        }
        carrier.may_begin = true;
        let Ok(taken) = stream.send(bytes) else {
            self.state.reset_stream(key, Reason::INTERNAL_ERROR);
            return Sent::Gone;
        };
        if carrier.has_queued(taken) && carrier.drive(self.port, id, *now) == Some(Over::Gone) {
            // Its place is the next connection's, which the handler may open in this call.
            self.state.forget_carrier(id);
            self.state.remove_stream(key);
            return Sent::Gone;
        }
        self.state.mark(id);
        Sent::Taken(taken)
    }

    fn set_paused(&mut self, inner: ConnectionId, is_paused: bool) {
        let key = key_of(inner);
        if let Some(id) = self.plain(inner) {
            match is_paused {
                true => self.port.pause(id),
                false => self.port.resume(id),
            }
        } else if let Some(stream) = self.state.stream(key) {
            stream.is_paused = is_paused;
            // Whoever is still paused when that is looked at is not just refused and forgotten.
            stream.mark.set();
            let id = stream.carrier;
            self.state.mark(id);
        }
    }
}

impl Port for StreamsPort<'_> {
    fn send(&mut self, inner: ConnectionId, bytes: &[u8]) -> Sent {
        match self.plain(inner) {
            Some(id) => {
                let sent = self.port.send(id, bytes);
                self.sent(id, sent)
            }
            None => self.send_on(key_of(inner), bytes),
        }
    }

    fn send_vectored(&mut self, inner: ConnectionId, slices: &[IoSlice<'_>]) -> Sent {
        if let Some(id) = self.plain(inner) {
            let sent = self.port.send_vectored(id, slices);
            return self.sent(id, sent);
        }
        send_each(slices, |slice| self.send_on(key_of(inner), slice))
    }

    fn close(&mut self, inner: ConnectionId) {
        if let Some(id) = self.plain(inner) {
            self.port.close(id);
            self.state.forget_plain(id);
        } else if let Some(stream) = self.state.remove_stream(key_of(inner)) {
            let id = stream.carrier;
            let is_whole = stream.close();
            if let Some(carrier) = self.state.carrier(id).filter(|_| is_whole) {
                carrier.has_answered();
            }
        }
    }

    fn abort(&mut self, inner: ConnectionId) {
        if let Some(id) = self.plain(inner) {
            self.port.abort(id);
            self.state.forget_plain(id);
        } else {
            let key = key_of(inner);
            self.state.reset_stream(key, Reason::INTERNAL_ERROR);
        }
    }

    fn pause(&mut self, inner: ConnectionId) {
        self.set_paused(inner, true);
    }

    fn resume(&mut self, inner: ConnectionId) {
        self.set_paused(inner, false);
    }

    fn unanswered(&mut self, inner: ConnectionId) {
        if let Some(id) = self.plain(inner) {
            self.port.unanswered(id);
        }
    }

    fn has_news(&mut self, inner: ConnectionId) -> bool {
        let plain = self.plain(inner);
        plain.is_none_or(|id| self.port.has_news(id))
    }

    fn connect(&mut self, peer: &Peer) -> io::Result<ConnectionId> {
        let id = self.port.connect(peer)?;
        // Nobody asks for the role or the address of who did not come in.
        Ok(self.state.add(id, Role::default(), Client::Unix, false))
    }

    fn send_datagrams(&mut self, socket: DatagramId, datagrams: &[Datagram<'_>]) -> usize {
        self.port.send_datagrams(socket, datagrams)
    }

    fn stop_accepting(&mut self) {
        self.port.stop_accepting();
        self.state.drain();
    }

    fn clock(&self, event: Time) -> Time {
        self.port.clock(event)
    }

    fn wall_clock(&self) -> WallClock {
        self.port.wall_clock()
    }
}
