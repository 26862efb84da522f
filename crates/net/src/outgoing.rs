//! Bytes owed to a connection that its socket did not take.
//!
//! ```text
//!   send, ---> socket has room and nothing is owed ----> the socket, without a copy
//!   gather
//!     |
//!     +------> else, or for what it did not take ------> pieces, in order
//!                                                           |
//!   writable (or connected) ------------------------------> as much as the socket takes
//! ```
//!
//! A piece is bytes of our own, which what follows is appended to, or a part of bytes that are
//! shared, such as a file's. While the socket is known to be full nothing is tried: `writable` says
//! when it is not. When all is sent the memory goes, so that an idle connection has no buffer; one
//! that writes small messages all the time keeps a small buffer on request.
//!
//! How much may be owed is not decided here: [`Outgoing::unsent`] says how much is, and whoever
//! produces the bytes stops. What is long is kept in a piece of just its size; where the system has
//! no memory for one, the connection is dropped, and the process goes on.

use crate::port::{ConnectionId, Port, Sent};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Pieces handed to the socket at once.
const SLICES_MAX: usize = 16;

/// Room for pieces that stays beside a buffer that is kept.
const PIECES_KEPT: usize = 4;

/// Bytes from this many on are kept in a piece of their own: to grow one for them would take more
/// memory than they have, and copy what is there.
const LONG: usize = 4096;

/// What a sending left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flushed {
    /// Nothing: the socket has all.
    All,
    /// Some bytes are owed: [`Outgoing::writable`] goes on with them.
    Some,
    /// The connection is gone, as with [`Sent::Gone`]; what was owed is forgotten.
    Gone,
}

/// Bytes that are shared and do not change, whoever has them.
pub trait Shared: AsRef<[u8]> + std::fmt::Debug + Send + Sync {}

impl<T: AsRef<[u8]> + std::fmt::Debug + Send + Sync> Shared for T {}

/// Bytes to be sent, where they lie.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Of theirs, what the socket does not take is copied.
    Lent(&'a [u8]),
    /// A part of bytes that are shared: what the socket does not take is kept without a copy.
    Shared {
        /// All of them.
        bytes: &'a Arc<[u8]>,
        /// Where the part begins.
        start: usize,
        /// And where it ends.
        end: usize,
    },
    /// What is behind so many bytes of shared ones that their owner has in his own way: as with
    /// `Shared`.
    Kept(&'a Arc<dyn Shared>, usize),
}

impl<'a> Part<'a> {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Part::Lent(bytes) => bytes,
            Part::Shared { bytes, start, end } => &bytes[start..end],
            Part::Kept(bytes, sent) => &(**bytes).as_ref()[sent..],
        }
    }

    /// What is behind so many of its bytes.
    fn behind(self, count: usize) -> Part<'a> {
        match self {
            Part::Lent(bytes) => Part::Lent(&bytes[count..]),
            Part::Shared { bytes, start, end } => {
                let start = start + count;
                Part::Shared { bytes, start, end }
            }
            Part::Kept(bytes, sent) => Part::Kept(bytes, sent + count),
        }
    }
}

#[derive(Clone, Debug)]
enum Piece {
    /// Bytes of our own, from `sent` on.
    Own { bytes: Vec<u8>, sent: usize },
    /// A part of bytes that are shared.
    Shared {
        bytes: Arc<[u8]>,
        range: Range<usize>,
    },
    /// Shared bytes from `sent` on.
    Kept { bytes: Arc<dyn Shared>, sent: usize },
}

impl Piece {
    fn rest(&self) -> &[u8] {
        match self {
            Piece::Own { bytes, sent } => &bytes[*sent..],
            Piece::Shared { bytes, range } => &bytes[range.clone()],
            Piece::Kept { bytes, sent } => &(**bytes).as_ref()[*sent..],
        }
    }

    fn advance(&mut self, taken: usize) {
        match self {
            Piece::Own { sent, .. } | Piece::Kept { sent, .. } => *sent += taken,
            Piece::Shared { range, .. } => range.start += taken,
        }
    }
}

/// The bytes owed to one connection.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    pieces: VecDeque<Piece>,
    /// The sum over the pieces.
    unsent: usize,
    /// What the socket has taken, since the beginning.
    sent_total: u64,
    /// The socket is full: `writable` will come.
    is_blocked: bool,
    /// The largest buffer that is kept when all is sent, in bytes.
    keep_bytes: usize,
    /// There was no memory for bytes that are owed: the connection cannot go on.
    is_lost: bool,
}

impl Outgoing {
    /// Nothing owed yet; when nothing is owed, no memory is held.
    pub fn new() -> Outgoing {
        Outgoing::default()
    }

    /// Nothing owed yet; a buffer of up to `keep_bytes` is kept when all is sent, for a connection
    /// whose bytes are mostly made with [`Outgoing::write`].
    pub fn keeping(keep_bytes: usize) -> Outgoing {
        Outgoing {
            keep_bytes,
            ..Outgoing::default()
        }
    }

    /// Bytes owed.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.unsent == 0
    }

    /// Bytes that the socket has taken since the connection began.
    pub fn sent_total(&self) -> u64 {
        self.sent_total
    }

    /// Bytes of memory held, those of shared pieces not counted.
    pub fn capacity(&self) -> usize {
        let own = self.pieces.iter().map(|piece| match piece {
            Piece::Own { bytes, .. } => bytes.capacity(),
            Piece::Shared { .. } | Piece::Kept { .. } => 0,
        });
        self.pieces.capacity() * size_of::<Piece>() + own.sum::<usize>()
    }

    /// Forgets what is owed and begins anew, for another connection.
    pub fn clear(&mut self) {
        self.pieces.truncate(1);
        self.unsent = 0;
        self.give_back();
        (self.sent_total, self.is_blocked, self.is_lost) = (0, false, false);
    }

    /// Makes room for so many bytes that are appended next, if they are long: where the system has
    /// none, the connection is dropped when it is sent to the next time, and what is appended until
    /// then is forgotten. Whether there is room.
    pub fn make_room(&mut self, bytes: usize) -> bool {
        let has_room = match self.pieces.back() {
            Some(Piece::Own { bytes: own, .. }) => own.capacity() - own.len() >= bytes,
            _ => false,
        };
        if bytes < LONG || has_room || self.is_lost {
            return !self.is_lost;
        }
        let mut own = Vec::new();
        if own.try_reserve_exact(bytes).is_err() {
            self.is_lost = true;
            return false;
        }
        let (bytes, sent) = (own, 0);
        self.pieces.push_back(Piece::Own { bytes, sent });
        true
    }

    /// Has `write` append to what is owed; to be sent by the next [`Outgoing::flush`].
    pub fn write<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let long = LONG.max(self.keep_bytes);
        let grows = |bytes: &Vec<u8>| bytes.len() < long || bytes.capacity() - bytes.len() >= LONG;
        if !matches!(self.pieces.back(), Some(Piece::Own { bytes, .. }) if grows(bytes)) {
            let (bytes, sent) = (Vec::new(), 0);
            self.pieces.push_back(Piece::Own { bytes, sent });
        }
        let Some(Piece::Own { bytes, sent }) = self.pieces.back_mut() else {
            unreachable!("just made sure");
        };
        // A buffer that is appended to again and again must not grow by what is sent.
        if *sent > bytes.len() / 2 {
            bytes.drain(..*sent);
            *sent = 0;
        }
        let before = bytes.len();
        let result = write(bytes);
        assert!(bytes.len() >= before, "what is owed is appended to only");
        self.unsent += bytes.len() - before;
        let is_empty = bytes.len() == *sent;
        if self.unsent == 0 {
            self.give_back();
        } else if is_empty {
            // Nothing was written behind another piece.
            self.pieces.pop_back();
        }
        result
    }

    /// Appends to what is owed; to be sent by the next [`Outgoing::flush`].
    pub fn push(&mut self, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(Piece::Own { bytes: own, .. }) if own.capacity() - own.len() >= bytes.len() => {
                own.extend_from_slice(bytes);
                self.unsent += bytes.len();
            }
            _ => self.write(|out| out.extend_from_slice(bytes)),
        }
    }

    /// Appends bytes as a piece of their own, without a copy; to be sent by the next
    /// [`Outgoing::flush`].
    pub fn push_own(&mut self, bytes: Vec<u8>) {
        self.push_behind(bytes, 0);
    }

    /// The same, of which so many are sent.
    fn push_behind(&mut self, bytes: Vec<u8>, sent: usize) {
        if sent < bytes.len() && !self.is_lost {
            self.unsent += bytes.len() - sent;
            self.pieces.push_back(Piece::Own { bytes, sent });
        }
    }

    /// Appends a part of shared bytes, without a copy; to be sent by the next [`Outgoing::flush`].
    fn push_shared(&mut self, bytes: Arc<[u8]>, range: Range<usize>) {
        assert!(range.end <= bytes.len(), "the range is within the bytes");
        if !range.is_empty() {
            self.unsent += range.len();
            self.pieces.push_back(Piece::Shared { bytes, range });
        }
    }

    /// Appends what is behind so many of shared bytes, without a copy.
    fn push_kept(&mut self, bytes: Arc<dyn Shared>, sent: usize) {
        let rest = (*bytes).as_ref().len() - sent;
        if rest > 0 {
            self.unsent += rest;
            self.pieces.push_back(Piece::Kept { bytes, sent });
        }
    }

    /// Appends a part, copied or shared; to be sent by the next [`Outgoing::flush`].
    pub fn push_part(&mut self, part: Part<'_>) {
        match part {
            Part::Lent(bytes) => self.push_rest(bytes),
            Part::Shared { bytes, start, end } => self.push_shared(bytes.clone(), start..end),
            Part::Kept(bytes, sent) => self.push_kept(bytes.clone(), sent),
        }
    }

    /// Sends bytes behind what is owed: at once what the socket takes, the rest is kept.
    pub fn send(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8]) -> Flushed {
        if self.unsent > 0 || self.is_blocked {
            self.push_rest(bytes);
            return self.flush(port, id);
        }
        match port.send(id, bytes) {
            Sent::Taken(taken) if taken == bytes.len() => {
                self.took(taken, taken);
                Flushed::All
            }
            Sent::Taken(taken) => {
                self.took(taken, bytes.len());
                self.push_rest(&bytes[taken..]);
                self.flush(port, id)
            }
            Sent::Gone => self.gone(),
        }
    }

    /// Sends bytes, and then so many of a buffer's, behind what is owed: at once what the socket
    /// takes. For what it does not take of the buffer, that is taken and kept; else it stays.
    pub fn send_own(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        before: &[u8],
        (own, length): (&mut Vec<u8>, usize),
    ) -> Flushed {
        let mut taken = 0;
        if self.unsent == 0 && !self.is_blocked {
            let slices = [IoSlice::new(before), IoSlice::new(&own[..length])];
            taken = match port.send_vectored(id, &slices) {
                Sent::Taken(taken) => taken,
                Sent::Gone => return self.gone(),
            };
            let all = before.len() + length;
            self.took(taken, all);
            if taken == all {
                return Flushed::All;
            }
        }
        self.push_rest(&before[taken.min(before.len())..]);
        let mut bytes = std::mem::take(own);
        bytes.truncate(length);
        bytes.shrink_to_fit();
        self.push_behind(bytes, taken.saturating_sub(before.len()));
        self.flush(port, id)
    }

    /// Sends parts, one after the other, behind what is owed: at once what the socket takes, the
    /// rest is kept. For few and long ones: those beyond the first 16 are copied.
    pub fn gather(&mut self, port: &mut dyn Port, id: ConnectionId, parts: &[Part<'_>]) -> Flushed {
        if self.unsent > 0 || self.is_blocked {
            self.keep(parts, 0);
            return self.flush(port, id);
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut length = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part.bytes());
            length += slice.len();
        }
        match port.send_vectored(id, &slices[..parts.len().min(SLICES_MAX)]) {
            Sent::Taken(taken) => {
                self.took(taken, length);
                if taken == length && parts.len() <= SLICES_MAX {
                    return Flushed::All;
                }
                self.keep(parts, taken);
                self.flush(port, id)
            }
            Sent::Gone => self.gone(),
        }
    }

    /// Keeps parts but for the first so many bytes.
    fn keep(&mut self, parts: &[Part<'_>], mut sent: usize) {
        for part in parts {
            let of_this = sent.min(part.bytes().len());
            sent -= of_this;
            self.push_part(part.behind(of_this));
        }
    }

    /// Sends what the socket takes of what is owed, unless it is known to be full.
    pub fn flush(&mut self, port: &mut dyn Port, id: ConnectionId) -> Flushed {
        if self.is_lost {
            port.abort(id);
            return self.gone();
        }
        while self.unsent > 0 && !self.is_blocked {
            let (sent, length) = match &*self.pieces.make_contiguous() {
                [piece] => (port.send(id, piece.rest()), self.unsent),
                pieces => {
                    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                    let mut length = 0;
                    for (slice, piece) in slices.iter_mut().zip(pieces) {
                        *slice = IoSlice::new(piece.rest());
                        length += slice.len();
                    }
                    let count = pieces.len().min(SLICES_MAX);
                    (port.send_vectored(id, &slices[..count]), length)
                }
            };
            match sent {
                Sent::Taken(taken) => {
                    self.took(taken, length);
                    self.advance(taken);
                }
                Sent::Gone => return self.gone(),
            }
        }
        self.state()
    }

    /// The socket takes bytes again, or for the first time: to be called when the handler is told
    /// that the connection is `writable` or `connected`.
    pub fn writable(&mut self, port: &mut dyn Port, id: ConnectionId) -> Flushed {
        self.is_blocked = false;
        self.flush(port, id)
    }

    /// The socket took that much of what it was given.
    fn took(&mut self, taken: usize, length: usize) {
        assert!(taken <= length, "a port takes what it is given at most");
        self.sent_total += taken as u64;
        self.is_blocked = taken < length;
    }

    fn push_rest(&mut self, rest: &[u8]) {
        if self.make_room(rest.len()) && !rest.is_empty() {
            self.push(rest);
        }
    }

    /// Drops what was sent from the front.
    fn advance(&mut self, mut taken: usize) {
        self.unsent -= taken;
        if self.unsent == 0 {
            return self.give_back();
        }
        while let Some(front) = self.pieces.front_mut() {
            let of_this = taken.min(front.rest().len());
            front.advance(of_this);
            taken -= of_this;
            if !front.rest().is_empty() {
                break;
            }
            self.pieces.pop_front();
        }
        debug_assert!(!self.pieces.is_empty(), "what is unsent is in a piece");
    }

    /// Nothing is owed: lets go of the memory, but for a small buffer where one is wanted.
    fn give_back(&mut self) {
        debug_assert_eq!(self.unsent, 0);
        if let [Piece::Own { bytes, sent }] = self.pieces.make_contiguous()
            && bytes.capacity() <= self.keep_bytes
        {
            bytes.clear();
            *sent = 0;
            self.pieces.shrink_to(PIECES_KEPT);
        } else {
            self.pieces = VecDeque::new();
        }
    }

    fn state(&self) -> Flushed {
        match self.unsent {
            0 => Flushed::All,
            _ => Flushed::Some,
        }
    }

    fn gone(&mut self) -> Flushed {
        self.pieces = VecDeque::new();
        (self.unsent, self.is_lost) = (0, false);
        Flushed::Gone
    }
}

#[cfg(test)]
mod tests;
