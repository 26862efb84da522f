//! Frames: what messages go in, so that an end notices when what comes is not what was sent. All
//! numbers are little-endian.
//!
//! | at | bytes | |
//! |---:|---:|---|
//! | 0 | 4 | bytes of the body |
//! | 4 | 4 | CRC-32 of the body |
//! | 8 | 4 | CRC-32 of the head up to here |
//! | 12 | | the body: a message's kind, and what belongs to it |
//!
//! The head has a checksum of its own: a length that is wrong would have its reader wait for what
//! nobody sends.
//!
//! What each end says first goes in another, which is the same in every version of the protocol, so
//! that ends of different ones can say so:
//!
//! | at | bytes | |
//! |---:|---:|---|
//! | 0 | 4 | bytes of the body |
//! | 4 | | the body: kind (1), [`MAGIC`] (8), the protocol's number (2), and more |
//! | behind it | 4 | from protocol 3 on: CRC-32 of all of that |

use super::bytes::{Bounded, Taker, Wrong};
use crc32fast::Hasher;
use std::ops::Range;

/// The number of this protocol: ends that have others do not work together.
pub(crate) const PROTOCOL: u16 = 3;
/// What stands behind the kind of what an end says first.
pub(crate) const MAGIC: [u8; 8] = *b"RhythmD\0";

/// The first protocol that has checksums.
const SUMMED_SINCE: u16 = 3;
const LENGTH_BYTES: usize = 4;
const SUM_BYTES: usize = 4;
const HEAD_BYTES: usize = 12;
/// Where in a head its own checksum is.
const HEAD_SUM_AT: usize = HEAD_BYTES - SUM_BYTES;
/// Bytes of memory that stay with a connection on which nothing is under way.
const KEPT_MAX: usize = 4096;

/// Why a connection cannot be used any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// What came is not what was sent.
    #[error("the checksum of a message is wrong: the network or a memory changes bytes")]
    Checksum,
    /// It is, and is no message.
    #[error("{0}")]
    Wrong(#[from] Wrong),
}

const FOREIGN: Wrong = Wrong("it is not Rhythm's protocol of devices");

/// Appends a frame whose body `write` appends.
pub(crate) fn put(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = to.len();
    to.extend_from_slice(&[0; HEAD_BYTES]);
    write(to);
    seal(&mut to[at..]);
}

/// Appends a frame likewise. False: its body comes to more than so many bytes, of which no more was
/// copied, and nothing is appended.
pub(crate) fn put_bounded(
    to: &mut Vec<u8>,
    body_max: usize,
    write: impl FnOnce(&mut Bounded<'_>),
) -> bool {
    let at = to.len();
    to.extend_from_slice(&[0; HEAD_BYTES]);
    let mut bounded = Bounded::new(to, at + HEAD_BYTES + body_max);
    write(&mut bounded);
    let fits = bounded.has_all();
    match fits {
        true => seal(&mut to[at..]),
        false => to.truncate(at),
    }
    fits
}

/// Appends the frame of what an end says first, whose body `write` appends.
pub(crate) fn put_first(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = to.len();
    to.extend_from_slice(&[0; LENGTH_BYTES]);
    write(to);
    let length = (to.len() - at - LENGTH_BYTES) as u32;
    to[at..at + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    let sum = crc32fast::hash(&to[at..]);
    to.extend_from_slice(&sum.to_le_bytes());
}

/// Fills in a frame's head.
fn seal(frame: &mut [u8]) {
    let (head, body) = frame.split_at_mut(HEAD_BYTES);
    head[..LENGTH_BYTES].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[LENGTH_BYTES..HEAD_SUM_AT].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    let sum = crc32fast::hash(&head[..HEAD_SUM_AT]);
    head[HEAD_SUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// What has come on a connection and was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    /// Where the next frame begins: what stands before it was taken.
    at: usize,
    /// Of its body, how much is in the sum: it is summed as it comes, while it is in the caches.
    summed: usize,
    sum: u32,
    /// What the other end says first was taken.
    has_first: bool,
}

impl Incoming {
    /// Appends what came.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that it has.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The body of the next frame, once it has come whole and its checksum is right. No more than
    /// `body_max` bytes of one are ever waited for.
    ///
    /// # Errors
    /// The connection cannot be used any further.
    pub(crate) fn next(&mut self, body_max: usize) -> Result<Option<&[u8]>, Broken> {
        let body = match self.has_first {
            false => self.first(body_max)?,
            true => self.further(body_max)?,
        };
        Ok(body.map(|body| &self.bytes[body]))
    }

    /// Lets go of what was taken.
    pub(crate) fn tidy(&mut self) {
        self.bytes.drain(..self.at);
        self.at = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_MAX {
            self.bytes = Vec::new();
        }
    }

    fn first(&mut self, body_max: usize) -> Result<Option<Range<usize>>, Broken> {
        let bytes = &self.bytes[self.at..];
        // Who speaks something else is told from its first bytes, whatever length these may be.
        let magic = bytes.get(LENGTH_BYTES + 1..).unwrap_or_default();
        let known = magic.len().min(MAGIC.len());
        if magic[..known] != MAGIC[..known] {
            return Err(FOREIGN.into());
        }
        let mut head = Taker(bytes);
        let Ok(length) = head.u32() else {
            return Ok(None);
        };
        let length = check_length(length, body_max)?;
        let Ok(mut body) = head.slice(length).map(Taker) else {
            return Ok(None);
        };
        let protocol = body.slice(1 + MAGIC.len()).and_then(|_| body.u16());
        let end = LENGTH_BYTES + length;
        let mut taken = end;
        if protocol.map_err(|_| FOREIGN)? >= SUMMED_SINCE {
            let Ok(sum) = head.u32() else {
                return Ok(None);
            };
            if crc32fast::hash(&bytes[..end]) != sum {
                return Err(Broken::Checksum);
            }
            taken += SUM_BYTES;
        }
        self.has_first = true;
        let start = self.at;
        self.at += taken;
        Ok(Some(start + LENGTH_BYTES..start + end))
    }

    fn further(&mut self, body_max: usize) -> Result<Option<Range<usize>>, Broken> {
        let mut rest = Taker(&self.bytes[self.at..]);
        let Ok(head) = rest.slice(HEAD_BYTES) else {
            return Ok(None);
        };
        let mut numbers = Taker(head);
        let (length, sum, sum_of_head) = (numbers.u32()?, numbers.u32()?, numbers.u32()?);
        if crc32fast::hash(&head[..HEAD_SUM_AT]) != sum_of_head {
            return Err(Broken::Checksum);
        }
        let length = check_length(length, body_max)?;
        let body = &rest.0[..rest.0.len().min(length)];
        let mut hasher = Hasher::new_with_initial(self.sum);
        hasher.update(&body[self.summed..]);
        (self.sum, self.summed) = (hasher.finalize(), body.len());
        if self.summed < length {
            return Ok(None);
        }
        self.summed = 0;
        if std::mem::take(&mut self.sum) != sum {
            return Err(Broken::Checksum);
        }
        let start = self.at + HEAD_BYTES;
        self.at = start + length;
        Ok(Some(start..self.at))
    }
}

fn check_length(length: u32, body_max: usize) -> Result<usize, Wrong> {
    match length as usize {
        length if (1..=body_max).contains(&length) => Ok(length),
        _ => Err(Wrong("a message has no length that it may have")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_MAX: usize = 1000;

    /// The bodies of what comes in pieces of so many bytes.
    fn bodies(bytes: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, Broken> {
        let (mut input, mut bodies) = (Incoming::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            input.extend(piece);
            while let Some(body) = input.next(BODY_MAX)? {
                bodies.push(body.to_vec());
            }
            input.tidy();
        }
        Ok(bodies)
    }

    fn first(protocol: u16) -> Vec<u8> {
        [&[1], &MAGIC[..], &protocol.to_le_bytes(), b"more"].concat()
    }

    fn said() -> (Vec<Vec<u8>>, Vec<u8>) {
        let all = vec![first(PROTOCOL), b"one".to_vec(), vec![7; 300], vec![0]];
        let mut bytes = Vec::new();
        put_first(&mut bytes, |to| to.extend_from_slice(&all[0]));
        for body in &all[1..] {
            put(&mut bytes, |to| to.extend_from_slice(body));
        }
        (all, bytes)
    }

    #[test]
    fn bodies_come_as_they_went_in_any_pieces() {
        let (all, bytes) = said();
        for piece in 1..=bytes.len() {
            assert_eq!(bodies(&bytes, piece).as_ref(), Ok(&all), "{piece}");
        }
        for cut in 0..bytes.len() {
            assert!(bodies(&bytes[..cut], cut.max(1)).is_ok_and(|bodies| bodies.len() < all.len()));
        }
        let mut input = Incoming::default();
        input.extend(&bytes);
        while let Ok(Some(_)) = input.next(BODY_MAX) {}
        input.tidy();
        assert_eq!(input.len(), 0);
    }

    #[test]
    fn any_changed_bit_is_noticed_before_its_body_is_there() {
        let (all, bytes) = said();
        let first_frame = LENGTH_BYTES + all[0].len() + SUM_BYTES;
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                for piece in [5, changed.len()] {
                    match bodies(&changed, piece) {
                        // A first length that grew has it wait for more, one that shrank is another
                        // end's, and so is another protocol.
                        Ok(bodies) => {
                            assert!(
                                at < first_frame && bodies.len() <= 1,
                                "{at} {bit}: {bodies:?}"
                            )
                        }
                        Err(Broken::Wrong(_)) => assert!(at < first_frame, "{at} {bit}"),
                        Err(Broken::Checksum) => {}
                    }
                }
            }
        }
    }

    #[test]
    fn no_more_is_waited_for_than_a_body_may_have() {
        let mut bytes = Vec::new();
        put_first(&mut bytes, |to| to.extend_from_slice(&first(PROTOCOL)));
        for length in [0, BODY_MAX + 1] {
            let mut bytes = bytes.clone();
            put(&mut bytes, |to| to.resize(to.len() + length, 1));
            let wrong = Wrong("a message has no length that it may have");
            assert_eq!(bodies(&bytes, bytes.len()), Err(wrong.into()), "{length}");
        }
        let longest = |to: &mut Bounded<'_>| super::super::bytes::Put::put(to, &[1; BODY_MAX]);
        assert!(put_bounded(&mut bytes, BODY_MAX, longest));
        let before = bytes.clone();
        assert!(!put_bounded(&mut bytes, BODY_MAX - 1, longest));
        assert_eq!(bytes, before);
        assert_eq!(bodies(&bytes, 100).map(|bodies| bodies.len()), Ok(2));
    }

    #[test]
    fn ends_of_other_protocols_are_heard_and_can_hear() {
        // Protocol 2 has no checksums: it is not waited for one.
        let body = first(2);
        let mut old = (body.len() as u32).to_le_bytes().to_vec();
        old.extend_from_slice(&body);
        assert_eq!(bodies(&old, 3), Ok(vec![body]));
        // What it takes of this one is as long as it says.
        let mut new = Vec::new();
        put_first(&mut new, |to| to.extend_from_slice(&first(PROTOCOL)));
        assert_eq!(new[..4], (first(PROTOCOL).len() as u32).to_le_bytes());
        assert_eq!(new[4..new.len() - 4], first(PROTOCOL));
        for other in [&b"HTTP/1.1 400 Bad Request\r\n"[..], &[0; 20]] {
            assert_eq!(bodies(other, 7), Err(FOREIGN.into()));
        }
    }
}
