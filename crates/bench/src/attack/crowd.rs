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

/// What a client has room for, in bytes, where it does not want to read: the least there is.
pub(super) const NO_ROOM: Option<usize> = Some(4096);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Crowd {
    server: SocketAddr,
    /// How many connections it is.
    pub(super) count: usize,
    until: Instant,
    members: Vec<Option<TcpStream>>,
    buffer: Vec<u8>,
    actions: u64,
    refused: u64,
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

    /// Does nothing until the time is up.
    pub(super) fn wait(&self) {
        thread::sleep(self.until.saturating_duration_since(Instant::now()));
    }

    /// Opens all of its connections that are not open, with so much room for what comes (or as
    /// much as is usual), and sends `bytes` on each of them.
    pub(super) fn gather(&mut self, room: Option<usize>, bytes: &[u8]) {
        self.members.resize_with(self.count, || None);
        for index in 0..self.count {
            if self.members[index].is_none() && !self.is_over() {
                self.open(index, room);
                self.send(index, bytes);
            }
        }
    }

    /// Opens a connection in the place of what may be there.
    pub(super) fn open(&mut self, index: usize, room: Option<usize>) {
        if index >= self.members.len() {
            self.members.resize_with(index + 1, || None);
        }
        self.members[index] = connect(self.server, room).ok();
        match self.members[index] {
            Some(_) => self.actions += 1,
            None => self.refused += 1,
        }
    }

    /// Sends what is taken at once.
    pub(super) fn send(&mut self, index: usize, bytes: &[u8]) {
        let Some(Some(stream)) = self.members.get_mut(index) else {
            return;
        };
        match stream.write(bytes) {
            Ok(taken) => self.actions += u64::from(taken > 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.members[index] = None,
        }
    }

    /// Reads what has come, a buffer at most.
    pub(super) fn read(&mut self, index: usize) {
        let Some(Some(stream)) = self.members.get_mut(index) else {
            return;
        };
        match stream.read(&mut self.buffer) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => self.members[index] = None,
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
