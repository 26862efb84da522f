//! Frames of the ring over Ethernet: what TCP does for them elsewhere, and no more. Without I/O,
//! the time an argument.
//!
//! ```text
//!   frames for a node --> its stream --> pieces, each in an Ethernet frame --> Port
//!                                           by name: from which node to which
//!   frames of a node <-- bytes in order <-- its stream <-- pieces
//! ```
//!
//! - `piece` is what an Ethernet frame carries: names, places, acknowledgments, a checksum.
//! - `stream` puts pieces in order, sends lost ones again, and bounds how many are under way.
//!
//! Who is where on the link is found by asking: who was not heard of is called, by frames to
//! everybody, and answers. That is done where frames are sent; here a node is a number.

mod piece;
mod stream;

use super::terms::Terms;
use piece::Piece;
use rhythm_net::Time;
use stream::Stream;

/// The EtherType of the frames: the first of the two that are for experiments (IEEE 802).
pub const ETHER_TYPE: u16 = 0x88b5;

/// What an Ethernet frame brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came<'a> {
    /// Nothing for this node.
    Nothing,
    /// A piece of this node's stream.
    From(usize),
    /// A node of this number was told something else: this, of this digest.
    Otherwise {
        /// Its number.
        from: usize,
        /// The digest of its terms.
        digest: u64,
        /// As much of their text as it says here.
        theirs: &'a [u8],
    },
}

/// The streams to and from the other nodes.
#[derive(Debug)]
pub struct Ether {
    me: usize,
    ring: u64,
    /// What is said to who was not heard of yet.
    greeting: Vec<u8>,
    /// Bytes of a stream that a piece has at most.
    piece_max: usize,
    streams: Vec<Stream>,
    /// What a frame is to carry.
    carried: Vec<u8>,
}

impl Ether {
    /// For one node of a ring, told from others by what its nodes are told, on a link whose frames
    /// carry so many bytes. `session` is greater than those of the node's earlier lives.
    pub fn new(
        terms: &Terms,
        nodes: usize,
        me: usize,
        session: u64,
        frame_bytes_max: usize,
        now: Time,
    ) -> Ether {
        let piece_max = frame_bytes_max.min(1 << 15).saturating_sub(piece::BESIDE);
        Ether {
            me,
            ring: terms.digest(),
            greeting: terms.text(piece_max).to_vec(),
            piece_max: piece_max.max(1),
            streams: (0..nodes).map(|_| Stream::new(session, now)).collect(),
            carried: Vec::new(),
        }
    }

    /// Appends whole frames to a node's stream. They are lost where it was not heard of yet, or has
    /// not taken `untaken_max` bytes.
    pub fn send(&mut self, to: usize, frames: &[u8], untaken_max: usize) {
        let stream = &mut self.streams[to];
        if stream.is_met() && stream.held() < untaken_max {
            stream.write(frames);
        }
    }

    /// Whether the others are known to have all that was sent to them.
    pub fn is_empty(&self) -> bool {
        self.streams.iter().all(|stream| stream.held() == 0)
    }

    /// An Ethernet frame came that carried this.
    pub fn take<'a>(&mut self, carried: &'a [u8], now: Time) -> Came<'a> {
        let Some(piece) = Piece::read(carried).filter(|piece| usize::from(piece.to) == self.me)
        else {
            return Came::Nothing;
        };
        let from = usize::from(piece.from);
        if piece.ring != self.ring {
            let (digest, [theirs, _]) = (piece.ring, piece.bytes);
            return Came::Otherwise {
                from,
                digest,
                theirs,
            };
        }
        if from == self.me || from >= self.streams.len() {
            return Came::Nothing;
        }
        self.streams[from].take(&piece, now);
        Came::From(from)
    }

    /// What an Ethernet frame is to carry that tells a node of this number, who was told something
    /// else, what this one was told.
    pub fn greeting(&self, to: usize) -> Vec<u8> {
        let mut carried = Vec::new();
        let greeting = Piece {
            from: self.me as u8,
            to: to as u8,
            ring: self.ring,
            stream: 0,
            peer: 0,
            seq: 0,
            ack: 0,
            got: 0,
            bytes: [&self.greeting, &[]],
        };
        greeting.write(&mut carried);
        carried
    }

    /// Bytes that came from a node, in order. The reader takes whole frames off the front.
    pub fn coming(&mut self, from: usize) -> &mut Vec<u8> {
        &mut self.streams[from].coming
    }

    /// What came from a node are no frames: the streams to and from it begin anew.
    pub fn begin_anew(&mut self, from: usize) {
        self.streams[from].begin_anew();
    }

    /// Has `send` send what may be sent now: what an Ethernet frame is to carry, to which node; and
    /// whether that was heard of (else nobody knows where it is).
    pub fn flush(&mut self, now: Time, mut send: impl FnMut(usize, bool, &[u8])) {
        let carried = &mut self.carried;
        for (to, stream) in self.streams.iter_mut().enumerate() {
            if to == self.me {
                continue;
            }
            let is_met = stream.is_met();
            stream.flush(self.piece_max, now, |piece| {
                carried.clear();
                let bytes = match is_met {
                    true => piece.bytes,
                    false => [&self.greeting[..], &[]],
                };
                let named = Piece {
                    bytes,
                    from: self.me as u8,
                    to: to as u8,
                    ring: self.ring,
                    ..piece
                };
                named.write(carried);
                send(to, is_met, carried);
            });
        }
    }

    /// When [`flush`](Self::flush) is to be called at the latest.
    pub fn wake_at(&self) -> Time {
        let others = self.streams.iter().enumerate();
        let others = others.filter(|(node, _)| *node != self.me);
        let wakes = others.map(|(_, stream)| stream.wake_at());
        wakes.min().unwrap_or(Time::NEVER)
    }
}
