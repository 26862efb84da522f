//! A port to nowhere: what is sent is copied to main memory.

use super::output::Output;
use rhythm_net::{ConnectionId, Peer, Port, Sent, WallClock};
use rhythm_protocol::scan::Ring;
use std::io;

/// Takes every answer whole, and writes it to a ring of memory too large for the caches.
pub(super) struct MemoryPort {
    pub(super) ring: Ring,
    /// Pages are streamed there, since nobody reads them; runs are copied, since whoever gathers an
    /// answer would read them soon.
    output: Output,
    /// Bytes sent so far.
    pub(super) bytes: u64,
    /// Whether answers are kept, to be looked at.
    pub(super) keep: bool,
    answers: Vec<Vec<u8>>,
}

impl MemoryPort {
    /// A port with a ring of so many bytes.
    pub(super) fn new(ring_bytes: usize, output: Output) -> MemoryPort {
        MemoryPort {
            ring: Ring::new(ring_bytes),
            output,
            bytes: 0,
            keep: false,
            answers: Vec::new(),
        }
    }

    /// What was kept of a connection's last answer.
    pub(super) fn answer(&self, slot: usize) -> &[u8] {
        self.answers.get(slot).map_or(&[], Vec::as_slice)
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
        match self.output {
            Output::Pages => self.ring.stream(bytes),
            Output::Runs => self.ring.copy(bytes),
        }
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
