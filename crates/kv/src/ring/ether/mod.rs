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

use super::node::life;
use super::terms::Terms;
use piece::Piece;
use rhythm_net::Time;
use stream::{Stream, Took};

/// The EtherType of the frames: the first of the two that are for experiments (IEEE 802).
pub const ETHER_TYPE: u16 = 0x88b5;

/// What an Ethernet frame brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came<'a> {
    /// Nothing for this node.
    Nothing,
    /// A piece of this node's stream.
    From(usize),
    /// The first of it: what was sent to that node until now may be lost.
    Met(usize),
    /// Another node of this number than the one that counts, its next life maybe.
    Another {
        /// Its number.
        from: usize,
        /// The session that its streams begin with.
        session: u64,
    },
    /// A node says that another of this one's name and number is there.
    Refused {
        /// Who says so.
        by: usize,
        /// The session that the other's streams began with.
        session: u64,
        /// Where that is, in the words of who says so.
        at: &'a [u8],
    },
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
    /// carry so many bytes. `session` is another than those of the node's earlier lives, and a
    /// multiple of [`SESSIONS`](super::SESSIONS).
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
        let stream = &mut self.streams[from];
        if piece.stream == 0 {
            // Of no stream: a word to who is refused.
            let (mine, _) = stream.numbers();
            let is_for_another = piece.peer == 0 || life(piece.peer) == life(mine);
            let (by, session, [at, _]) = (from, piece.peer, piece.bytes);
            return match is_for_another {
                true => Came::Nothing,
                false => Came::Refused { by, session, at },
            };
        }
        match stream.take(&piece, now) {
            Took::Nothing => Came::Nothing,
            Took::Part => Came::From(from),
            Took::First => Came::Met(from),
            Took::Another => Came::Another {
                from,
                session: piece.stream,
            },
        }
    }

    /// What an Ethernet frame is to carry that tells a node of this number, who was told something
    /// else, what this one was told.
    pub fn greeting(&self, to: usize) -> Vec<u8> {
        self.word(to, 0, &self.greeting)
    }

    /// What an Ethernet frame is to carry that tells another node of this number that it is
    /// refused: which one counts, and where that is.
    pub fn refusal(&self, to: usize, at: &[u8]) -> Vec<u8> {
        let (_, theirs) = self.streams[to].numbers();
        self.word(to, theirs, &at[..at.len().min(self.piece_max)])
    }

    /// What an Ethernet frame is to carry that is of no stream.
    fn word(&self, to: usize, peer: u64, bytes: &[u8]) -> Vec<u8> {
        let mut carried = Vec::new();
        let word = Piece {
            from: self.me as u8,
            to: to as u8,
            ring: self.ring,
            stream: 0,
            peer,
            seq: 0,
            ack: 0,
            got: 0,
            bytes: [bytes, &[]],
        };
        word.write(&mut carried);
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
    /// whether that was heard of (else nobody knows where it is). Of the nodes in `alive`, a bit
    /// each, it is known otherwise that they are there.
    pub fn flush(&mut self, alive: u64, now: Time, mut send: impl FnMut(usize, bool, &[u8])) {
        let carried = &mut self.carried;
        for (to, stream) in self.streams.iter_mut().enumerate() {
            if to == self.me {
                continue;
            }
            stream.look(alive & 1 << to != 0, now);
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
