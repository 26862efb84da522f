//! The backbone over Ethernet: one socket for the frames of a link, and where on it the other nodes
//! are: where what they say comes from. What is for one that was not heard of yet goes to all.

use super::super::udp::Datagrams;
use crate::membership::Membership;
use crate::ring::Terms;
use crate::ring::ether::{Came, Ether};
use rhythm_net::{Datagram, DatagramId, Link, Port, Role, Time};
use std::net::SocketAddr;

/// The only socket for datagrams that this thread has.
const SOCKET: DatagramId = DatagramId {
    index: 0,
    role: Role(0),
};

/// The link and who is on it.
pub(super) struct Stations {
    ether: Ether,
    places: Vec<SocketAddr>,
    everybody: SocketAddr,
    out: Datagrams,
    untaken_max: usize,
}

impl Stations {
    pub(super) fn new(
        ring: &Membership,
        terms: &Terms,
        link: Link,
        session: u64,
        untaken_max: usize,
        now: Time,
    ) -> Stations {
        let (nodes, bytes_max) = (ring.members.len(), link.frame_bytes_max);
        Stations {
            ether: Ether::new(terms, nodes, ring.me, session, bytes_max, now),
            places: vec![link.everybody; nodes],
            everybody: link.everybody,
            out: Datagrams::default(),
            untaken_max,
        }
    }

    /// Whether the others have all that was to be sent.
    pub(super) fn are_empty(&self) -> bool {
        self.ether.is_empty()
    }

    /// Frames for a node are to be sent.
    pub(super) fn send(&mut self, node: usize, frames: &[u8]) {
        if !frames.is_empty() {
            self.ether.send(node, frames, self.untaken_max);
        }
    }

    /// Sends what may be sent now. When this is to be called again at the latest.
    /// Of the nodes in `alive`, a bit each, it is known otherwise that they are there.
    pub(super) fn flush(&mut self, port: &mut dyn Port, alive: u64, now: Time) -> Time {
        self.ether.flush(alive, now, |node, is_met, carried| {
            let to = match is_met {
                true => self.places[node],
                false => self.everybody,
            };
            self.out.push_whole(port, SOCKET, to, carried);
        });
        self.out.flush(port);
        self.ether.wake_at()
    }

    /// A frame of the link came.
    pub(super) fn take<'a>(&mut self, frame: &Datagram<'a>, now: Time) -> Came<'a> {
        let came = self.ether.take(frame.bytes, now);
        if let Came::From(from) | Came::Met(from) = came {
            self.places[from] = frame.peer;
        }
        came
    }

    /// Says to another node of a number that it is refused: who counts, and where that is.
    pub(super) fn refuse(&mut self, port: &mut dyn Port, to: SocketAddr, node: usize) {
        let at = hardware_address(self.places[node]);
        let carried = self.ether.refusal(node, at.as_bytes());
        self.out.push_whole(port, SOCKET, to, &carried);
    }

    /// Says to who is refused, and is there, what this node was told.
    pub(super) fn greet(&mut self, port: &mut dyn Port, to: SocketAddr, node: usize) {
        let carried = self.ether.greeting(node);
        self.out.push_whole(port, SOCKET, to, &carried);
    }

    /// What came from a node in order so far, to be [kept](Self::keep_coming).
    pub(super) fn take_coming(&mut self, from: usize) -> Vec<u8> {
        std::mem::take(self.ether.coming(from))
    }

    /// What is left of it; or that it is no good.
    pub(super) fn keep_coming(&mut self, from: usize, coming: Vec<u8>, is_ours: bool) {
        match is_ours {
            true => *self.ether.coming(from) = coming,
            false => self.ether.begin_anew(from),
        }
    }
}

/// The address of a station as people write it. It lies in the link-local one of IPv6 that stands
/// for it (RFC 4291, appendix A).
fn hardware_address(of: SocketAddr) -> String {
    let SocketAddr::V6(of) = of else {
        return of.to_string();
    };
    let [.., a, b, c, _, _, d, e, f] = of.ip().octets();
    let parts = [a ^ 2, b, c, d, e, f].map(|part| format!("{part:02x}"));
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_is_called_by_its_hardware_address() {
        let of = "[fe80::5054:ff:feab:cdef%7]:34997".parse().unwrap();
        assert_eq!(hardware_address(of), "52:54:00:ab:cd:ef");
    }
}
