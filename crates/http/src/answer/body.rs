//! What follows an answer's head.
//!
//! Whoever answers gives a head and one of these. Bodies that grow while they are sent are begun
//! and appended to instead (`clients/stream.rs`).

use rhythm_net::Part;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A body whose bytes are all there. They are read before the call that it is given in returns.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// Nothing: to `HEAD`, or with a status that has no content; or it stands behind the head
    /// already.
    Empty,
    /// These bytes.
    Bytes(&'a [u8]),
    /// Pieces that lie in different places, such as a page's.
    Stitched(&'a dyn Pieces),
    /// A part of a file that is held in memory. What a client does not take at once is not copied.
    File(&'a Arc<[u8]>, Range<usize>),
    /// The first so many bytes of a buffer, which is taken if it is kept for the client, so that
    /// nothing is copied. There is none behind it then.
    Own(&'a RefCell<Vec<u8>>, usize),
}

/// The pieces of a body, in their order.
pub trait Pieces {
    /// Bytes of all of them.
    fn length(&self) -> usize;

    /// Gives one after the other.
    fn each<'a>(&'a self, give: &mut dyn FnMut(&'a [u8]));
}

impl fmt::Debug for dyn Pieces + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in pieces", self.length())
    }
}

impl<'a> From<&'a [u8]> for Body<'a> {
    fn from(bytes: &'a [u8]) -> Body<'a> {
        Body::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Body<'a> {
    fn from(bytes: &'a [u8; N]) -> Body<'a> {
        Body::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Body<'a> {
    fn from(bytes: &'a Vec<u8>) -> Body<'a> {
        Body::Bytes(bytes)
    }
}

impl<'a> Body<'a> {
    /// Its bytes.
    pub fn length(&self) -> usize {
        match self {
            Body::Empty => 0,
            Body::Bytes(bytes) => bytes.len(),
            Body::Stitched(pieces) => pieces.length(),
            Body::File(_, range) => range.len(),
            Body::Own(_, length) => *length,
        }
    }

    /// Gives its parts, one after the other, but for those of a buffer that may be taken.
    #[inline]
    pub(crate) fn each(&self, give: &mut dyn FnMut(Part<'a>)) {
        match *self {
            Body::Empty | Body::Own(..) => {}
            Body::Bytes(bytes) => give(Part::Lent(bytes)),
            Body::Stitched(pieces) => pieces.each(&mut |piece| give(Part::Lent(piece))),
            Body::File(bytes, Range { start, end }) => give(Part::Shared { bytes, start, end }),
        }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.length());
        self.each(&mut |part| out.extend_from_slice(part.bytes()));
        if let Body::Own(buffer, length) = self {
            out.extend_from_slice(&buffer.borrow()[..*length]);
        }
    }
}
