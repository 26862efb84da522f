//! A port to nowhere: what is sent is copied to main memory.

use rhythm_net::{ConnectionId, Peer, Port, Sent, WallClock};
use rhythm_protocol::scan::Ring;
use std::io::{self, IoSlice};

/// Takes every answer whole, and streams it to a ring of memory too large for the caches: nobody
/// here reads it again.
pub(super) struct MemoryPort {
    pub(super) ring: Ring,
    /// Bytes sent so far.
    pub(super) bytes: u64,
    /// Whether answers are kept, to be looked at.
    pub(super) keep: bool,
    /// Who was answered since somebody looked, and whether by 200, where somebody looks.
    pub(super) answered: Option<Vec<(u32, bool)>>,
    answers: Vec<Vec<u8>>,
    /// Whether what is left of each answer's buffer, of the next power of two, is written, too.
    pub(super) pads: bool,
    /// Bytes of the last answer, as far as it was sent, and what its buffer is filled up with.
    begun: usize,
    padding: Vec<u8>,
}

impl MemoryPort {
    /// A port with a ring of so many bytes.
    pub(super) fn new(ring_bytes: usize) -> MemoryPort {
        MemoryPort {
            ring: Ring::new(ring_bytes),
            bytes: 0,
            keep: false,
            answered: None,
            answers: Vec::new(),
            pads: false,
            begun: 0,
            padding: Vec::new(),
        }
    }

    /// What was kept of a connection's last answer.
    pub(super) fn answer(&self, slot: usize) -> &[u8] {
        self.answers.get(slot).map_or(&[], Vec::as_slice)
    }
}

impl MemoryPort {
    /// Fills up the buffer of the answer before this one, which may be sent in parts.
    fn pad(&mut self, slices: &[IoSlice<'_>], length: usize) {
        if slices
            .first()
            .is_some_and(|head| head.starts_with(b"HTTP/1.1 "))
            && self.begun > 0
        {
            let left = self.begun.next_power_of_two() - self.begun;
            if self.padding.len() < left {
                self.padding.resize(left, b' ');
            }
            self.ring.stream(&self.padding[..left]);
            self.bytes += left as u64;
            self.begun = 0;
        }
        self.begun += length;
    }

    /// Keeps an answer's bytes, or more of them.
    #[cold]
    fn take_note(&mut self, connection: ConnectionId, bytes: &[u8]) {
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
}

impl Port for MemoryPort {
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Sent {
        self.send_vectored(connection, &[IoSlice::new(bytes)])
    }

    fn send_vectored(&mut self, connection: ConnectionId, slices: &[IoSlice<'_>]) -> Sent {
        if self.keep {
            slices
                .iter()
                .for_each(|slice| self.take_note(connection, slice));
        }
        if let Some(answered) = &mut self.answered
            && let Some(head) = slices.first().filter(|head| head.starts_with(b"HTTP/1.1 "))
        {
            answered.push((connection.slot(), head.starts_with(b"HTTP/1.1 200 ")));
        }
        let length = slices.iter().map(|slice| slice.len()).sum();
        if self.pads {
            self.pad(slices, length);
        }
        self.bytes += length as u64;
        self.ring.stream_parts(slices);
        Sent::Taken(length)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_powers_of_two_however_their_answers_are_sent() {
        let (mut port, client) = (MemoryPort::new(1 << 16), ConnectionId::new(0, 1));
        let answer = [b"HTTP/1.1 200 OK\r\n".to_vec(), vec![b'x'; 1083]].concat();
        port.pads = true;
        for _ in 0..3 {
            assert_eq!(port.send(client, &answer[..700]), Sent::Taken(700));
            assert_eq!(port.send(client, &answer[700..]), Sent::Taken(400));
        }
        // The last one's may go on.
        assert_eq!(port.bytes, 2 * 2048 + 1100);
        port.pads = false;
        assert_eq!(port.send(client, &answer), Sent::Taken(1100));
        assert_eq!(port.bytes, 2 * 2048 + 2 * 1100);
    }
}
