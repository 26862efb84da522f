//! What one Ethernet frame carries: bytes <-> pieces, without I/O.
//!
//! ```text
//!   byte 0   2   3      4    5   6        8      16     24    32    40    48    56
//!        | RE | 1 | from | to | 0 | length | ring | mine | peer | seq | ack | got | bytes | sum |
//!
//!   magic, version, who sends to whom, how many bytes of the stream follow; which ring; the
//!   sender's stream, and the receiver's as the sender knows it; the place of these bytes among the
//!   pieces (0: there are none); up to which place it has the receiver's, and, a bit each, which of
//!   the 64 from the next one on; the bytes; a checksum of all that (SipHash-1-3 under a fixed key:
//!   against accidents).
//! ```
//!
//! Numbers are little-endian. What follows the checksum is padding of the link's.

use crate::checksum::checksum;

const MAGIC: [u8; 2] = *b"RE";
/// The pieces' format: others are not understood.
const VERSION: u8 = 1;
/// Bytes in front of the stream's.
const HEAD: usize = 56;
/// What the checksum is keyed with.
const SUM_KEY: [u64; 2] = [0x7268_7974_686d, 0x6574_6865_7200];
const SUM: usize = 8;
/// Bytes of a piece beside the stream's.
pub(super) const BESIDE: usize = HEAD + SUM;

/// A piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// Who sends.
    pub(super) from: u8,
    /// Whom.
    pub(super) to: u8,
    /// A digest of the ring's members.
    pub(super) ring: u64,
    /// The sender's stream.
    pub(super) stream: u64,
    /// The receiver's, as the sender knows it; 0: not yet.
    pub(super) peer: u64,
    /// The place; 0: it has no bytes.
    pub(super) seq: u64,
    /// All up to this place have come.
    pub(super) ack: u64,
    /// So have these behind it: bit 0 is the place `ack + 1`, which has not.
    pub(super) got: u64,
    /// Bytes of the stream, two to the 16 at most.
    pub(super) bytes: [&'a [u8]; 2],
}

impl<'a> Piece<'a> {
    /// Appends it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let length: usize = self.bytes.iter().map(|bytes| bytes.len()).sum();
        debug_assert!(length <= usize::from(u16::MAX), "the length has 16 bits");
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, self.from, self.to, 0]);
        out.extend_from_slice(&(length as u16).to_le_bytes());
        for word in [
            self.ring,
            self.stream,
            self.peer,
            self.seq,
            self.ack,
            self.got,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        debug_assert_eq!(out.len() - start, HEAD);
        self.bytes
            .iter()
            .for_each(|bytes| out.extend_from_slice(bytes));
        let sum = checksum(SUM_KEY, &out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
    }

    /// The piece in what a frame carried; none: it is none, or was damaged.
    pub(super) fn read(frame: &'a [u8]) -> Option<Piece<'a>> {
        let head = frame.first_chunk::<HEAD>()?;
        let [m, n, version, from, to, _, low, high, words @ ..] = head;
        if [*m, *n] != MAGIC || *version != VERSION {
            return None;
        }
        let end = HEAD + usize::from(u16::from_le_bytes([*low, *high]));
        let sum = frame.get(end..end + SUM)?;
        if checksum(SUM_KEY, &frame[..end]).to_le_bytes() != sum {
            return None;
        }
        let (words, _) = words.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        Some(Piece {
            from: *from,
            to: *to,
            ring: word(0),
            stream: word(1),
            peer: word(2),
            seq: word(3),
            ack: word(4),
            got: word(5),
            bytes: [&frame[HEAD..end], &[]],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_every_change_is_seen() {
        let piece = Piece {
            from: 1,
            to: 2,
            ring: 1 << 63,
            stream: 4,
            peer: 5,
            seq: 6,
            ack: 7,
            got: 8,
            bytes: [b"some bytes", b" and others"],
        };
        let mut frame = Vec::new();
        piece.write(&mut frame);
        assert_eq!(frame.len(), BESIDE + 21);
        let whole = Piece {
            bytes: [b"some bytes and others", b""],
            ..piece
        };
        let mut padded = frame.clone();
        padded.resize(100, 0);
        assert_eq!(Piece::read(&padded), Some(whole));
        for at in 0..frame.len() {
            assert_eq!(Piece::read(&frame[..at]), None, "{at} bytes of it");
            for bit in 0..8 {
                frame[at] ^= 1 << bit;
                assert_eq!(Piece::read(&frame), None, "byte {at}, bit {bit}");
                frame[at] ^= 1 << bit;
            }
        }
    }
}
