//! For tests: a port whose connections lie in memory, the other end of each in the test's hands.
//!
//! A test puts connections in ([`TestPort::accept`]) or lets what it tests open them, says how much
//! their sockets take, and looks at what was sent. What happens to them it tells the handler
//! itself. Compiled with the feature `testing` alone, which only tests ask for.

use crate::port::{
    ConnectionId, DatagramId, Peer, PeerAddress, Port, Sent, Time, WallClock, send_each,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A connection as the other side sees it.
#[derive(Debug)]
pub struct TestConnection {
    /// Whom it was opened to; 0.0.0.0:0 where it was accepted.
    pub address: SocketAddr,
    /// It stands: bytes may be sent.
    pub open: bool,
    /// What was sent to the other side and not yet taken by the test.
    pub sent: Vec<u8>,
    /// The slices of each sending, by address and length: those that the socket did not take, too.
    pub slices: Vec<Vec<(*const u8, usize)>>,
    /// How many more bytes the socket takes.
    pub room: usize,
    /// A send was not taken whole.
    pub blocked: bool,
    /// Sending finds the connection gone.
    pub broken: bool,
}

/// The port: its connections, and what was asked of it.
#[derive(Debug)]
pub struct TestPort {
    /// Those that are there.
    pub connections: BTreeMap<ConnectionId, TestConnection>,
    /// Those that were aborted.
    pub aborted: Vec<TestConnection>,
    /// Those that were closed: what was sent before is still on its way.
    pub closed: Vec<TestConnection>,
    /// `connect` fails at once.
    pub connect_fails: bool,
    /// This side has no room for more connections.
    pub is_full: bool,
    /// The other side's queue has none, as that of a Unix socket says at once.
    pub queue_is_full: bool,
    /// Bytes that a new connection's socket takes.
    pub room: usize,
    /// Calls of `connect`.
    pub connects: u32,
    /// Slices given to sockets, one after the other.
    pub sends: u32,
    /// Whom what was sent last did not answer.
    pub unanswered: BTreeSet<ConnectionId>,
    /// The datagram sockets from which nothing is taken, by their index.
    pub paused_datagrams: BTreeSet<u32>,
    /// How long it takes to close or abort a connection; nothing else takes time.
    pub closing_takes: Duration,
    /// How long that has taken so far.
    pub took: Duration,
}

impl Default for TestPort {
    fn default() -> TestPort {
        TestPort {
            connections: BTreeMap::new(),
            aborted: Vec::new(),
            closed: Vec::new(),
            connect_fails: false,
            is_full: false,
            queue_is_full: false,
            room: usize::MAX,
            connects: 0,
            sends: 0,
            unanswered: BTreeSet::new(),
            paused_datagrams: BTreeSet::new(),
            closing_takes: Duration::ZERO,
            took: Duration::ZERO,
        }
    }
}

impl TestPort {
    /// A port with one connection, whose socket takes so many bytes.
    pub fn with(id: ConnectionId, room: usize) -> TestPort {
        let mut port = TestPort {
            room,
            ..TestPort::default()
        };
        port.accept(id);
        port
    }

    /// A client's connection stands from now on.
    pub fn accept(&mut self, id: ConnectionId) {
        self.insert(id, (Ipv4Addr::UNSPECIFIED, 0).into(), true);
    }

    /// A connection that is there. Panics where it is not.
    pub fn at(&mut self, id: ConnectionId) -> &mut TestConnection {
        match self.connections.get_mut(&id) {
            Some(connection) => connection,
            None => panic!("{id:?} is gone, or never was"),
        }
    }

    fn insert(&mut self, id: ConnectionId, address: SocketAddr, open: bool) {
        let connection = TestConnection {
            address,
            open,
            sent: Vec::new(),
            slices: Vec::new(),
            room: self.room,
            blocked: false,
            broken: false,
        };
        self.connections.insert(id, connection);
    }

    /// Gives a connection's socket a slice.
    fn give(&mut self, id: ConnectionId, bytes: &[u8]) -> Sent {
        self.sends += 1;
        self.unanswered.remove(&id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return Sent::Gone;
        };
        if connection.broken {
            self.connections.remove(&id);
            return Sent::Gone;
        }
        assert!(connection.open, "sent before connected");
        let taken = bytes.len().min(connection.room);
        connection.room -= taken;
        connection.sent.extend_from_slice(&bytes[..taken]);
        connection.blocked |= taken < bytes.len();
        Sent::Taken(taken)
    }
}

impl Port for TestPort {
    fn send(&mut self, id: ConnectionId, bytes: &[u8]) -> Sent {
        self.send_vectored(id, &[IoSlice::new(bytes)])
    }

    fn send_vectored(&mut self, id: ConnectionId, slices: &[IoSlice<'_>]) -> Sent {
        if let Some(connection) = self.connections.get_mut(&id) {
            let slices = slices.iter().map(|slice| (slice.as_ptr(), slice.len()));
            connection.slices.push(slices.collect());
        }
        send_each(slices, |slice| self.give(id, slice))
    }

    fn close(&mut self, id: ConnectionId) {
        self.took += self.closing_takes;
        self.closed.extend(self.connections.remove(&id));
    }

    fn abort(&mut self, id: ConnectionId) {
        self.took += self.closing_takes;
        self.aborted.extend(self.connections.remove(&id));
    }

    fn pause(&mut self, _: ConnectionId) {}

    fn resume(&mut self, _: ConnectionId) {}

    fn unanswered(&mut self, id: ConnectionId) {
        self.unanswered.insert(id);
    }

    fn connect(&mut self, peer: &Peer) -> io::Result<ConnectionId> {
        let PeerAddress::Tcp(address) = peer.address else {
            panic!("{peer} is of another world");
        };
        self.connects += 1;
        if self.is_full {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if self.queue_is_full {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.connect_fails {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        let id = ConnectionId::new(self.connects, 0);
        self.insert(id, address, false);
        Ok(id)
    }

    fn pause_datagrams(&mut self, socket: DatagramId) {
        self.paused_datagrams.insert(socket.index);
    }

    fn resume_datagrams(&mut self, socket: DatagramId) {
        self.paused_datagrams.remove(&socket.index);
    }

    fn stop_accepting(&mut self) {}

    fn clock(&self, event: Time) -> Time {
        event + self.took
    }

    fn wall_clock(&self) -> WallClock {
        WallClock::default()
    }
}
