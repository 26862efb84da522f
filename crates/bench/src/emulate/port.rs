//! A port to nowhere: what is sent is copied to main memory.

use rhythm_net::{ConnectionId, Peer, Port, Sent, WallClock};
use std::io;

/// Takes every answer whole, and writes it to a ring of memory too large for the caches.
pub(super) struct MemoryPort {
    ring: Vec<u8>,
    at: usize,
    /// Bytes sent so far.
    pub(super) bytes: u64,
    /// Whether answers are kept, to be looked at.
    pub(super) keep: bool,
    answers: Vec<Vec<u8>>,
}

impl MemoryPort {
    /// A port with a ring of so many bytes.
    pub(super) fn new(ring_bytes: usize) -> MemoryPort {
        MemoryPort {
            // Written to, so that the pages exist before anything is measured.
            ring: vec![1; ring_bytes],
            at: 0,
            bytes: 0,
            keep: false,
            answers: Vec::new(),
        }
    }

    /// What was kept of a connection's last answer.
    pub(super) fn answer(&self, slot: usize) -> &[u8] {
        self.answers.get(slot).map_or(&[], Vec::as_slice)
    }

    /// Bytes of the ring.
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Copies to the ring.
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        if self.ring.len() - self.at < bytes.len() {
            self.at = 0;
        }
        let Some(room) = self.ring.get_mut(self.at..self.at + bytes.len()) else {
            return;
        };
        room.copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

impl Port for MemoryPort {
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Sent {
        if self.keep {
            let slot = connection.slot() as usize;
            if self.answers.len() <= slot {
                self.answers.resize(slot + 1, Vec::new());
            }
            let answer = &mut self.answers[slot];
            // One answer may be sent in parts; the next begins with its status line.
            if bytes.starts_with(b"HTTP/1.1 ") {
                answer.clear();
            }
            answer.extend_from_slice(bytes);
        }
        self.bytes += bytes.len() as u64;
        self.copy(bytes);
        Sent::Taken(bytes.len())
    }

    fn close(&mut self, _: ConnectionId) {}

    fn abort(&mut self, _: ConnectionId) {}

    fn pause(&mut self, _: ConnectionId) {}

    fn resume(&mut self, _: ConnectionId) {}

    fn connect(&mut self, _: &Peer) -> io::Result<ConnectionId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn stop_accepting(&mut self) {}

    fn wall_clock(&self) -> WallClock {
        WallClock::default()
    }
}
