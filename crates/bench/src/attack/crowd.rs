//! The connections of an attack.
//!
//! So many and no more, for so long and no longer; what the server does with them does not stop an
//! attack, which opens others in the place of those that are closed.

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// How long it waits to be let in.
const CONNECT_MAX: Duration = Duration::from_millis(250);
/// Bytes that are read at a time, of answers that are read.
const READ_BYTES: usize = 256 * 1024;
/// So often in a row at most, lest one connection holds up all others.
const READS_MAX: usize = 16;

/// How often a crowd that waits tries to send the rest of what it began.
const PUSH_EVERY: Duration = Duration::from_millis(10);

/// What a client has room for, in bytes, where it does not want to read: the least there is.
pub(super) const NO_ROOM: Option<usize> = Some(4096);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Crowd {
    server: SocketAddr,
    /// How many connections it is.
    pub(super) count: usize,
    until: Instant,
    members: Vec<Option<Member>>,
    buffer: Vec<u8>,
    actions: u64,
    refused: u64,
}

/// A connection.
#[derive(Debug)]
struct Member {
    stream: TcpStream,
    /// What is to be sent before anything else: the server did not take it at once.
    unsent: Vec<u8>,
}

impl Crowd {
    pub(super) fn new(server: SocketAddr, count: usize, until: Instant) -> Crowd {
        Crowd {
            server,
            count,
            until,
            members: Vec::with_capacity(count),
            buffer: vec![0; READ_BYTES],
            actions: 0,
            refused: 0,
        }
    }

    /// Whether its time is up.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Begins nothing more until the time is up; only what was begun goes on.
    pub(super) fn wait(&mut self) {
        while !self.is_over() {
            (0..self.count).for_each(|index| self.push(index));
            let left = self.until.saturating_duration_since(Instant::now());
            thread::sleep(left.min(PUSH_EVERY));
        }
    }

    /// Opens all of its connections that are not open, with so much room for what comes (or as
    /// much as is usual), and sends `bytes` on each of them.
    pub(super) fn gather(&mut self, room: Option<usize>, bytes: &[u8]) {
        self.members.resize_with(self.count, || None);
        for index in 0..self.count {
            if self.members[index].is_none() && !self.is_over() {
                self.open(index, room);
                self.begin(index, bytes);
            }
        }
    }

    /// Opens a connection in the place of what may be there.
    pub(super) fn open(&mut self, index: usize, room: Option<usize>) {
        if index >= self.members.len() {
            self.members.resize_with(index + 1, || None);
        }
        let stream = connect(self.server, room).ok();
        self.members[index] = stream.map(|stream| Member {
            stream,
            unsent: Vec::new(),
        });
        match self.members[index] {
            Some(_) => self.actions += 1,
            None => self.refused += 1,
        }
    }

    /// Sends what is taken at once; the rest is sent before anything else is begun. Whether these
    /// bytes were: not as long as there is a rest of others.
    pub(super) fn begin(&mut self, index: usize, bytes: &[u8]) -> bool {
        self.push(index);
        let is_free = |member: &Member| member.unsent.is_empty();
        let begins = matches!(self.members.get(index), Some(Some(member)) if is_free(member));
        if begins {
            self.go_on(index, bytes);
        }
        begins
    }

    /// Sends these behind what was begun, whether or not all of that is taken.
    pub(super) fn go_on(&mut self, index: usize, bytes: &[u8]) {
        if let Some(Some(member)) = self.members.get_mut(index) {
            member.unsent.extend_from_slice(bytes);
            self.push(index);
        }
    }

    /// Sends of the rest what is taken.
    pub(super) fn push(&mut self, index: usize) {
        let Some(Some(member)) = self.members.get_mut(index) else {
            return;
        };
        if member.unsent.is_empty() {
            return;
        }
        match member.stream.write(&member.unsent) {
            Ok(taken) => {
                self.actions += u64::from(taken > 0);
                member.unsent.drain(..taken);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.members[index] = None,
        }
    }

    /// Reads what has come, some buffers at most.
    pub(super) fn read(&mut self, index: usize) {
        for _ in 0..READS_MAX {
            let Some(Some(member)) = self.members.get_mut(index) else {
                return;
            };
            match member.stream.read(&mut self.buffer) {
                Ok(length @ 1..) if length == self.buffer.len() => {}
                Ok(1..) => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.members[index] = None,
            }
        }
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, index: usize) {
        if let Some(member) = self.members.get_mut(index) {
            self.actions += u64::from(member.take().is_some());
        }
    }

    /// Closes all connections. What was done (connections opened and closed, sends that were
    /// taken), and how often it was not let in.
    pub(super) fn disperse(self) -> (u64, u64) {
        (self.actions, self.refused)
    }
}

fn connect(server: SocketAddr, room: Option<usize>) -> rustix::io::Result<TcpStream> {
    let family = match server {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Some(room) = room {
        // Before the connection stands: the room is what it begins with.
        sockopt::set_socket_recv_buffer_size(&socket, room)?;
    }
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_MAX))?;
    net::connect(&socket, &server)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(TcpStream::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_is_begun_is_sent_whole_before_anything_else() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        let until = Instant::now() + Duration::from_secs(30);
        let mut crowd = Crowd::new(server, 1, until);
        crowd.open(0, None);
        let (mut peer, _) = listener.accept().expect("it was opened");
        // More than sockets hold, so that no write takes it whole.
        let request: Vec<u8> = (0..16 << 20_u32).map(|at| (at % 251) as u8).collect();
        assert!(crowd.begin(0, &request));
        assert!(!crowd.begin(0, b"another"));
        crowd.go_on(0, b"its end");
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).expect("it is closed in the end");
            all
        });
        while !crowd.begin(0, b"the next") && !crowd.is_over() {}
        crowd.close(0);
        let all = reader.join().expect("it reads");
        assert!(all == [&request[..], b"its end", b"the next"].concat());
    }
}
