//! What is told of a socket that is ready.

use super::{CROWD, Driver, datagrams_at};
use crate::driver::datagram::BATCH_MAX;
use crate::driver::sockets::{State, kind};
use crate::port::{ConnectionId, Datagram, DatagramId, Ended, Handler};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;

impl Driver {
    /// Tells the handler what a connection is ready for, unless it `lines_up`, where it may.
    /// Whether it did.
    pub(super) fn ready(
        &mut self,
        handler: &mut dyn Handler,
        id: ConnectionId,
        flags: EventFlags,
        may_line_up: bool,
    ) -> bool {
        // An event can outlive its connection within a turn.
        let now = self.sockets.now;
        let crowd_waits = self.crowd >= CROWD;
        let Some(connection) = self.sockets.get(id) else {
            return true;
        };
        if may_line_up && self.patient.takes(connection, id, flags, now) {
            return false;
        }
        match connection.state {
            State::Open => {
                let has_left = connection.is_new && flags.contains(EventFlags::RDHUP);
                connection.is_new = false;
                if has_left && crowd_waits {
                    // While others wait to be let in, nothing is done for who has given up before
                    // being looked at: an answer would come to nobody, and all later ones later.
                    self.fail(handler, id, Errno::CONNRESET);
                    return true;
                }
                let takes_more = connection.wants_write && flags.contains(EventFlags::OUT);
                if flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
                    self.receive(handler, id, flags);
                }
                // Afterwards: where the peer is gone, what it said last is heard before a send
                // fails.
                if takes_more
                    && let Some(connection) = self.sockets.get(id)
                    && connection.state == State::Open
                {
                    connection.wants_write = false;
                    self.sockets.note_change(id);
                    handler.writable(&mut self.sockets, id, now);
                }
            }
            State::Connecting => {
                let error = match sockopt::socket_error(&connection.socket) {
                    Ok(Ok(())) if flags.contains(EventFlags::OUT) => {
                        connection.state = State::Open;
                        self.sockets.note_change(id);
                        handler.connected(&mut self.sockets, id, now);
                        return true;
                    }
                    Ok(Ok(())) => Errno::CONNABORTED,
                    Ok(Err(errno)) | Err(errno) => errno,
                };
                self.fail(handler, id, error);
            }
            State::Closing => match connection.receive(&mut self.buffer) {
                Ok(1..) => self.sockets.rearm(id),
                Err(Errno::AGAIN) => {}
                Ok(0) | Err(_) => self.sockets.remove(id),
            },
        }
        true
    }

    fn receive(&mut self, handler: &mut dyn Handler, id: ConnectionId, flags: EventFlags) {
        let now = self.sockets.now;
        let Some(connection) = self
            .sockets
            .get(id)
            .filter(|connection| connection.state == State::Open)
        else {
            return;
        };
        if connection.paused || connection.input_ended {
            // Told all the same: it failed. We never end our output while it is open, so a hang-up
            // is no ordinary end either, but for those to whom we connected: what they said before,
            // such as a whole answer, is to be read.
            if !flags.intersects(EventFlags::ERR | EventFlags::HUP) {
                // It may be resumed before epoll knows of the pause.
                self.sockets.rearm(id);
                return;
            }
            let error = sockopt::socket_error(&connection.socket).and_then(|error| error);
            if !connection.outlasts(error.err()) {
                self.fail(handler, id, error.err().unwrap_or(Errno::CONNRESET));
            } else if !connection.is_known_paused() {
                // As above; but epoll that knows would tell of the failure again and again.
                self.sockets.rearm(id);
            }
            return;
        }
        let received = match (connection.receive(&mut self.buffer), connection.error) {
            // Who learned of the failure before has taken the error from the socket.
            (Ok(0), Some(errno)) => Err(errno),
            (received, _) => received,
        };
        match received {
            Ok(0) => {
                connection.input_ended = true;
                self.sockets.note_change(id);
                handler.ended(&mut self.sockets, id, Ended::PeerFinished, now);
            }
            Ok(length) => {
                connection.is_unanswered = !connection.is_ours();
                // Else it was read empty: what comes later is told of.
                let more = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR | EventFlags::PRI;
                if length == self.buffer.len() || flags.intersects(more) {
                    self.sockets.rearm(id);
                }
                handler.received(&mut self.sockets, id, &self.buffer[..length], now);
            }
            Err(Errno::AGAIN) => {}
            Err(errno) => self.fail(handler, id, errno),
        }
    }

    /// Hands one batch over. If there is more, the socket is ready in the next turn, too.
    pub(super) fn receive_datagrams(&mut self, handler: &mut dyn Handler, index: u32) {
        let role = self.datagram_roles[index as usize];
        let now = self.sockets.now;
        let id = DatagramId { index, role };
        let mut room = [Datagram::NONE; BATCH_MAX];
        let socket = &self.sockets.datagrams[index as usize];
        if socket.is_paused {
            // Since epoll told of it.
            return;
        }
        let received = socket.receive(&mut self.datagram_buffer, &mut room);
        if !received.is_empty() {
            handler.datagrams(&mut self.sockets, id, received, now);
        }
    }

    /// Has epoll tell of datagrams where they are wanted, and otherwise not, lest the loop spins.
    pub(super) fn receive_or_not(&mut self) -> io::Result<()> {
        for (index, socket) in self.sockets.datagrams.iter_mut().enumerate() {
            if socket.is_paused != socket.is_known_paused {
                let interest = match socket.is_paused {
                    true => EventFlags::empty(),
                    false => EventFlags::IN,
                };
                let data = datagrams_at(index);
                epoll::modify(&self.sockets.epoll, &*socket, data, interest)?;
                socket.is_known_paused = socket.is_paused;
            }
        }
        Ok(())
    }

    fn fail(&mut self, handler: &mut dyn Handler, id: ConnectionId, errno: Errno) {
        self.sockets.remove(id);
        let now = self.sockets.now;
        handler.ended(&mut self.sockets, id, Ended::Failed(kind(errno)), now);
    }
}
