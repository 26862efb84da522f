//! Datagrams of a turn (answers, frames of the ring), sent together.

use crate::wire::udp;
use rhythm_net::{Datagram, DatagramId, Port};
use std::net::SocketAddr;

/// Datagrams are sent when they have so many bytes together.
const SEND_BYTES: usize = 256 * 1024;
/// Datagrams handed to the port at once.
const BATCH: usize = 64;

/// What is to be sent at the end of the turn, or before if it is much.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    bytes: Vec<u8>,
    /// Where each datagram ends.
    ends: Vec<usize>,
    /// Who gets it.
    to: Vec<(DatagramId, SocketAddr)>,
    written: u64,
}

impl Datagrams {
    /// Adds an answer.
    pub(super) fn push(
        &mut self,
        port: &mut dyn Port,
        socket: DatagramId,
        peer: SocketAddr,
        id: u16,
        answer: &[u8],
    ) {
        udp::answer(id, answer, &mut self.bytes, &mut self.ends);
        self.pushed(port, socket, peer);
    }

    /// Adds a datagram with these bytes.
    pub(super) fn push_whole(
        &mut self,
        port: &mut dyn Port,
        socket: DatagramId,
        peer: SocketAddr,
        bytes: &[u8],
    ) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
        self.pushed(port, socket, peer);
    }

    fn pushed(&mut self, port: &mut dyn Port, socket: DatagramId, peer: SocketAddr) {
        self.to.resize(self.ends.len(), (socket, peer));
        if self.bytes.len() >= SEND_BYTES {
            self.send(port);
        }
    }

    /// Sends what there is, and says how many bytes it was since the last time. What a socket has
    /// no room for is lost, as datagrams are.
    pub(super) fn flush(&mut self, port: &mut dyn Port) -> u64 {
        self.send(port);
        std::mem::take(&mut self.written)
    }

    fn send(&mut self, port: &mut dyn Port) {
        let mut batch = [Datagram::new(SocketAddr::from(([0, 0, 0, 0], 0)), &[]); BATCH];
        let mut count = 0;
        let mut start = 0;
        for (index, (&end, &(socket, peer))) in self.ends.iter().zip(&self.to).enumerate() {
            batch[count] = Datagram::new(peer, &self.bytes[start..end]);
            count += 1;
            start = end;
            let next = self.to.get(index + 1);
            if count == BATCH || next.is_none_or(|(next, _)| *next != socket) {
                port.send_datagrams(socket, &batch[..count]);
                count = 0;
            }
        }
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        self.bytes.shrink_to(2 * SEND_BYTES);
        self.ends.clear();
        self.to.clear();
    }
}
