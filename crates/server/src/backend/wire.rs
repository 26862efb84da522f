//! What a kind of backend says over a connection: bytes from requests, cells from bytes.
//!
//! A wire does no I/O and knows no time: a [`Pool`](super::Pool) opens the connections, sends what
//! the wire encodes, gives it what comes back, and decides about deadlines, repetition and failing
//! backends, for all kinds the same. Answers come in the order of the requests.

use super::answers::Answers;
use rhythm_engine::cohort::{Argument, LaneError};
use rhythm_engine::program::Call;

/// What came breaks the protocol or a limit: the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Whether a connection can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It is ready for requests. Of the input, `used` bytes are done with; what follows is read as
    /// answers are.
    Done {
        /// At most the length of the input.
        used: usize,
    },
    /// The other side has to say more first; all of the input is done with.
    More,
}

/// An answer that was read; its cells have been put into [`Answers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The backend's status, 0 for good, or why there is no answer. An error drops the cells.
    pub outcome: Result<i64, LaneError>,
    /// The backend as a whole is in order: false counts against its circuit.
    pub is_healthy: bool,
    /// The connection goes on behind it. If not, what was sent behind this request is not carried
    /// out, and can be sent again.
    pub goes_on: bool,
}

/// A protocol. See the module's text.
pub trait Wire {
    /// What is kept of a connection while it is read.
    type Reader: Default;

    /// Opens a connection: called once when it stands, without input, and then with all that comes,
    /// until it is done. What is to be sent is appended to `out`.
    ///
    /// # Errors
    /// The other side said something else than it should.
    fn greet(
        &mut self,
        reader: &mut Self::Reader,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Unreadable> {
        let _ = (reader, input, out);
        Ok(Greeting::Done { used: 0 })
    }

    /// Appends the bytes of a request. It encodes and escapes what the arguments hold.
    fn encode<'a>(
        &mut self,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    );

    /// Reads on, and gives how many bytes of `input` are done with and an answer if that completed
    /// one; without one all of the input is done with. The answer is to a request for rows of so
    /// many columns. Its cells are delivered in the call that completes it.
    ///
    /// # Errors
    /// What came is not of the protocol, or too much.
    fn decode(
        &mut self,
        reader: &mut Self::Reader,
        input: &[u8],
        columns: u16,
        answers: &mut Answers,
    ) -> Result<(usize, Option<Reply>), Unreadable>;

    /// The connection ended in order: the answer that this completes, if there is one.
    fn finish(
        &mut self,
        reader: &mut Self::Reader,
        columns: u16,
        answers: &mut Answers,
    ) -> Option<Reply> {
        let _ = (reader, columns, answers);
        None
    }
}
