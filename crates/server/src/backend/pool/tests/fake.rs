//! For tests: a port whose connections lie in memory, the other end of each in the test's hands.

use rhythm_net::{ConnectionId, Peer, PeerAddress, Port, Sent, WallClock};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

/// A connection as the other side sees it.
#[derive(Debug)]
pub(in super::super) struct FakeConnection {
    pub(in super::super) address: SocketAddr,
    pub(in super::super) open: bool,
    /// What was sent to the other side and not yet taken by the test.
    pub(in super::super) sent: Vec<u8>,
    /// How many more bytes the socket takes.
    pub(in super::super) room: usize,
    /// A send was not taken whole.
    pub(in super::super) blocked: bool,
    /// Sending finds the connection gone.
    pub(in super::super) broken: bool,
}

/// The port: its connections, and what was asked of it.
#[derive(Debug)]
pub(in super::super) struct FakePort {
    pub(in super::super) connections: BTreeMap<ConnectionId, FakeConnection>,
    /// `connect` fails at once.
    pub(in super::super) connect_fails: bool,
    /// Bytes that a new connection's socket takes.
    pub(in super::super) room: usize,
    /// Calls of `connect` and of `send`.
    pub(in super::super) connects: u32,
    pub(in super::super) sends: u32,
}

impl Default for FakePort {
    fn default() -> FakePort {
        FakePort {
            connections: BTreeMap::new(),
            connect_fails: false,
            room: usize::MAX,
            connects: 0,
            sends: 0,
        }
    }
}

impl Port for FakePort {
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Sent {
        self.sends += 1;
        let Some(fake) = self.connections.get_mut(&connection) else {
            return Sent::Gone;
        };
        if fake.broken {
            self.connections.remove(&connection);
            return Sent::Gone;
        }
        assert!(fake.open, "sent before connected");
        let taken = bytes.len().min(fake.room);
        fake.room -= taken;
        fake.sent.extend_from_slice(&bytes[..taken]);
        fake.blocked |= taken < bytes.len();
        Sent::Taken(taken)
    }

    fn close(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
    }

    fn abort(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
    }

    fn pause(&mut self, _: ConnectionId) {}

    fn resume(&mut self, _: ConnectionId) {}

    fn connect(&mut self, peer: &Peer) -> io::Result<ConnectionId> {
        let PeerAddress::Tcp(address) = peer.address else {
            panic!("{peer} is of another world");
        };
        self.connects += 1;
        if self.connect_fails {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        let id = ConnectionId::new(self.connects, 0);
        let fake = FakeConnection {
            address,
            open: false,
            sent: Vec::new(),
            room: self.room,
            blocked: false,
            broken: false,
        };
        self.connections.insert(id, fake);
        Ok(id)
    }

    fn stop_accepting(&mut self) {}

    fn wall_clock(&self) -> WallClock {
        WallClock::default()
    }
}
