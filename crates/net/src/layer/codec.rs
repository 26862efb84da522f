//! What a layer does to the bytes of a connection is its codec's business.

use crate::port::{Accepted, Peer};
use std::io::{ErrorKind, IoSlice};

/// What becomes of one connection's bytes in both directions. It holds at most one record that has
/// not come whole.
pub trait Codec {
    /// Seals bytes of these slices from the front, as if they were one, into few records, which it
    /// appends to `out`, and returns how many. None only before the greeting is over, or where
    /// there are none.
    fn seal(&mut self, slices: &[IoSlice<'_>], out: &mut Vec<u8>) -> usize;

    /// Takes in what came (nothing, when an outgoing connection is to begin): appends the bytes of
    /// the records that are whole to `plain`, and what the peer must be answered to `out`.
    ///
    /// # Errors
    ///
    /// What is wrong with it: `out` is still sent, then the connection is closed, what else came
    /// with it is dropped, and nothing is asked of the codec any more.
    fn open(
        &mut self,
        input: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorKind>;

    /// Whether the greeting is over and bytes can be sealed.
    fn is_ready(&self) -> bool;

    /// Whether the peer has said farewell: it sends nothing more.
    fn has_ended(&self) -> bool;

    /// Appends the farewell to `out`.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Gives connections their codecs; those without one pass through the layer as they are.
pub trait Codecs {
    /// What they have.
    type Codec: Codec;

    /// For a client, by the role of the listener at which it arrived.
    fn accepted(&mut self, accepted: &Accepted) -> Option<Self::Codec>;

    /// For a connection of our own, by what is known of the peer.
    fn connecting(&mut self, peer: &Peer) -> Option<Self::Codec>;
}
