//! The frames of the backbone: bytes <-> messages, without I/O.
//!
//! ```text
//!   byte 0   2   3    4      8      16     24      32    40   48    52      60
//!        | RK | 8 | from | length | ring | session | peer | count | seq | ack | ...
//!
//!   magic, version, who sends, bytes of the whole frame; which ring; the sender's session and the
//!   receiver's as the sender knows it; how many frames it sent; the place of this one's messages
//!   in their order (0: none), and up to which place it has the receiver's; then which frame of the
//!   receiver's it heard last, the credit, the ranges that the sender has complete, those whose
//!   copies count, and those that wait for who is not in the ring now, flags, how often a part of a
//!   frame of the receiver's came, what it knows of each range, and under which epoch each of those
//!   counts; then messages, and a checksum of all
//!   that (SipHash-1-3 under a fixed key: against accidents, not against attackers, who must be
//!   kept off the backbone).
//! ```
//!
//! All numbers are little-endian. What is in a frame is bounded by its length, which the reader
//! bounds.

mod message;
#[cfg(test)]
mod tests;

use crate::bytes::Reader;
use crate::checksum::checksum;
pub use message::{Copy, Flush, Message, Messages, Of, Pass};
pub(crate) use message::{ENCODED, FETCHED, STALE, WON};

/// The frames' format; a node of another is not understood, and refused. Where they begin, and say
/// which it is and who sends, they are alike in all.
pub const VERSION: u8 = 8;
const MAGIC: [u8; 2] = *b"RK";
/// Bytes in front of what is known of the ranges.
const FIXED: usize = 98;
/// Bytes of what is known of a range.
const CLAIM: usize = 9;
/// Bytes of the epoch under which it counts.
const EPOCH: usize = 8;
/// What the checksum is keyed with.
const SUM_KEY: [u64; 2] = [0x7268_7974_686d, 0x6b76];
/// Bytes of the checksum.
const SUM: usize = 8;
/// The bytes from which the length of a frame is known.
pub(crate) const PREFIX: usize = 8;

/// Who serves a range, as far as a node knows: the claim of the highest epoch counts, and of two of
/// one epoch that of the higher node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// How often it was claimed; 0: never.
    pub epoch: u64,
    /// By whom.
    pub node: u8,
}

/// Whether a node stays in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// It does.
    #[default]
    Stays,
    /// It hands over what it serves, and serves nothing that another can.
    Leaves,
    /// It ends now.
    Gone,
}

/// What every frame says beside its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Who sends.
    pub from: u8,
    /// A digest of what the nodes of a ring are told; with who was told otherwise, or is not known
    /// yet, the text of it follows in place of messages.
    pub ring: u64,
    /// The sender's session with the receiver.
    pub session: u64,
    /// The receiver's session, as the sender knows it; 0: not yet.
    pub peer: u64,
    /// Frames that the sender has sent the receiver, with this one.
    pub count: u64,
    /// The place of the messages; 0: there are none.
    pub seq: u64,
    /// All messages up to this place have come.
    pub ack: u64,
    /// The count of the last frame of the receiver's that the sender heard.
    pub heard: u64,
    /// Bytes of messages that the receiver may have under way.
    pub credit: u32,
    /// Messages came, but not the ones that come next: those from `ack` on are to be sent again.
    pub gap: bool,
    /// How often some bytes came of a frame of the receiver's that was not whole yet, round and
    /// round: they are taken.
    pub parts: u16,
    /// Whether the sender stays.
    pub stay: Stay,
    /// The ranges of which the sender has all, a bit each.
    pub complete: u64,
    /// What the sender knows of each range.
    pub claims: Vec<Claim>,
    /// Of each range, the last epoch of which the sender knows that who serves it counts on it; 0:
    /// none. With leases, of one that it has complete no more, the epoch under which it had it.
    pub counts: Vec<u64>,
    /// The ranges that nobody in the roster has, and one may who is not in it, and whom the sender
    /// hears, a bit each: others may not.
    pub awaited: u64,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Of another protocol.
    #[error("it speaks another protocol")]
    Foreign,
    /// Of another version of this.
    #[error("node {} speaks version {version} of the protocol, and this one {VERSION}", from + 1)]
    Version {
        /// Its number.
        from: u8,
        /// Which.
        version: u8,
    },
    /// Longer than may be, or shorter than can be.
    #[error("a frame of {0} bytes")]
    Length(usize),
    /// The checksum is another.
    #[error("a frame was damaged")]
    Damaged,
}

/// The length of the frame that begins with these bytes, if they tell it.
///
/// # Errors
/// They begin no frame, or one longer than `most` bytes.
pub fn length(bytes: &[u8], most: usize) -> Result<Option<usize>, WireError> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let [m, n, version, from, a, b, c, d] = *prefix;
    if [m, n] != MAGIC {
        return Err(WireError::Foreign);
    }
    if version != VERSION {
        return Err(WireError::Version { from, version });
    }
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    match (FIXED + SUM..=most).contains(&length) {
        true => Ok(Some(length)),
        false => Err(WireError::Length(length)),
    }
}

/// Who sends the frame that begins with these bytes, if they tell it, and it is of this ring.
pub(crate) fn sender(bytes: &[u8], ring: u64) -> Option<usize> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX>()?;
    (*rest.first_chunk()? == ring.to_le_bytes()).then_some(prefix[3].into())
}

/// Appends a frame.
pub fn write(head: &Head, messages: &[u8], out: &mut Vec<u8>) {
    let counts = || {
        let counts = head.counts.iter().copied().enumerate();
        counts.filter(|(_, epoch)| *epoch > 0)
    };
    let counting = counts().fold(0, |set, (range, _)| set | 1_u64 << range);
    let known = CLAIM * head.claims.len() + EPOCH * counting.count_ones() as usize;
    let length = FIXED + known + messages.len() + SUM;
    let start = out.len();
    out.reserve(length);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, head.from]);
    out.extend_from_slice(&(length as u32).to_le_bytes());
    for word in [head.ring, head.session, head.peer, head.count, head.seq] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&head.ack.to_le_bytes());
    out.extend_from_slice(&head.heard.to_le_bytes());
    out.extend_from_slice(&head.credit.to_le_bytes());
    out.extend_from_slice(&head.complete.to_le_bytes());
    out.extend_from_slice(&counting.to_le_bytes());
    out.extend_from_slice(&head.awaited.to_le_bytes());
    let (stay, gap, ranges) = (head.stay as u8, u8::from(head.gap), head.claims.len() as u8);
    let [a, b] = head.parts.to_le_bytes();
    out.extend_from_slice(&[stay, gap, a, b, 0, ranges]);
    debug_assert_eq!(out.len() - start, FIXED);
    for claim in &head.claims {
        out.extend_from_slice(&claim.epoch.to_le_bytes());
        out.push(claim.node);
    }
    for (_, epoch) in counts() {
        out.extend_from_slice(&epoch.to_le_bytes());
    }
    out.extend_from_slice(messages);
    let sum = checksum(SUM_KEY, &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Reads a whole frame: its head and its messages.
///
/// # Errors
/// It is none, or was damaged.
pub fn read(frame: &[u8]) -> Result<(Head, &[u8]), WireError> {
    if length(frame, frame.len())? != Some(frame.len()) {
        return Err(WireError::Length(frame.len()));
    }
    let (body, sum) = frame.split_at(frame.len() - SUM);
    if checksum(SUM_KEY, body).to_le_bytes() != sum {
        return Err(WireError::Damaged);
    }
    let mut reader = Reader(&body[PREFIX..]);
    let head = reader.head(frame[3]).ok_or(WireError::Damaged)?;
    Ok((head, reader.0))
}

impl Reader<'_> {
    fn head(&mut self, from: u8) -> Option<Head> {
        let (ring, session, peer) = (self.u64()?, self.u64()?, self.u64()?);
        let (count, seq, ack, heard) = (self.u64()?, self.u64()?, self.u64()?, self.u64()?);
        let (credit, complete, counting) = (self.u32()?, self.u64()?, self.u64()?);
        let awaited = self.u64()?;
        let [stay, gap] = self.array()?;
        let parts = self.array().map(u16::from_le_bytes)?;
        let [_, ranges] = self.array()?;
        let claim = |reader: &mut Self| {
            let (epoch, node) = (reader.u64()?, reader.u8()?);
            Some(Claim { epoch, node })
        };
        let claims: Option<Vec<Claim>> = (0..ranges).map(|_| claim(self)).collect();
        let counts = (0..ranges).map(|range| match range < 64 && counting & 1 << range != 0 {
            true => self.u64(),
            false => Some(0),
        });
        let counts: Option<Vec<u64>> = counts.collect();
        Some(Head {
            from,
            ring,
            session,
            peer,
            count,
            seq,
            ack,
            heard,
            credit,
            gap: gap != 0,
            parts,
            stay: match stay {
                0 => Stay::Stays,
                1 => Stay::Leaves,
                _ => Stay::Gone,
            },
            complete,
            claims: claims?,
            counts: counts?,
            awaited,
        })
    }
}
