//! What a kind of backend says over a connection: bytes from queries, cells from bytes.
//!
//! A wire does no I/O and knows no time: a [`ConnectionPool`](super::ConnectionPool) opens the
//! connections, sends what the wire encodes, gives it what comes back, and decides about deadlines,
//! repetition and failing backends, for all kinds the same.
//!
//! What a protocol remembers of a connection (how far a greeting is, statements prepared on it, the
//! beginning of an answer) is the wire's [`Wire::Connection`]. A query is encoded for the
//! connection that it leaves on, at the moment it does; one that is sent again is encoded again,
//! for another.
//!
//! Answers come in the order of the queries, unless the wire says otherwise ([`Wire::IN_ORDER`]).
//! Then each query's number goes with it as a tag, and each answer's tag says which it is for.

use super::answers::QueryAnswers;
use super::awaited::{Awaited, Which};
use super::failure::Cause;
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::Call;
use std::fmt::Debug;

/// What came breaks the protocol or a limit: the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Whether a connection can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It is ready for queries. Of the input, `used` bytes are done with; what follows is read as
    /// answers are.
    Done {
        /// At most the length of the input.
        used: usize,
    },
    /// The other side has to say more first; all of the input is done with.
    More,
}

/// What became of a query whose answer was read; its cells have been put into [`QueryAnswers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which query.
    pub query: Which,
    /// The backend's status, 0 for good, or why there is no answer. An error drops the cells. What
    /// was [`Cause::Undone`] is sent again, up to `retries_max` times, idempotent or not.
    pub outcome: Result<i64, Cause>,
    /// The backend as a whole is in order: false counts against its circuit.
    pub is_healthy: bool,
    /// The connection goes on behind it. If not, what was sent behind this query is not carried
    /// out, and can be sent again.
    pub goes_on: bool,
}

/// A protocol. See the module's text.
pub trait Wire {
    /// What is kept of a connection while it stands.
    type Connection: Default + Debug;

    /// Answers come in the order of the queries: each is for [`Which::Oldest`], and one that is
    /// late holds up those behind it. If not, answers name their queries ([`Which::Number`]), and
    /// what is late is given up alone while others are answered.
    const IN_ORDER: bool = true;

    /// What is sent has a head, which can have fields that tell of the request for which it is
    /// asked ([`Wire::encode_with`]).
    const TAKES_FIELDS: bool = false;

    /// Opens a connection: called once when it stands, without input, and then with all that comes,
    /// until it is done. What is to be sent is appended to `out`.
    ///
    /// # Errors
    /// The other side said something else than it should.
    fn greet(
        &mut self,
        connection: &mut Self::Connection,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Unreadable> {
        let _ = (connection, input, out);
        Ok(Greeting::Done { used: 0 })
    }

    /// How many queries of this call can be asked as one now, by the arguments of all of them; less
    /// than 2: none. Asked once for the queries of a cohort.
    fn merges(&mut self, call: &Call) -> usize {
        let _ = call;
        0
    }

    /// Why a query is not asked, where what it asks cannot be said: it is told of in its place.
    fn refuses<'a>(
        &self,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
    ) -> Option<Cause> {
        let _ = (call, arguments);
        None
    }

    /// Appends the bytes of a query, which leaves on this connection. It encodes and escapes what
    /// the arguments hold: those of several queries where it merges them. The connection's queries
    /// are numbered as they leave, from 0 on; a protocol with tags makes its tag of the number.
    fn encode<'a>(
        &mut self,
        connection: &mut Self::Connection,
        number: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    );

    /// As [`Wire::encode`], with these fields in its head, each a whole line, where the protocol
    /// has such.
    fn encode_with<'a>(
        &mut self,
        connection: &mut Self::Connection,
        number: u64,
        (call, fields): (&Call, &[u8]),
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        let _ = fields;
        self.encode(connection, number, call, arguments, out);
    }

    /// Reads on, and gives how many bytes of `input` are done with and a verdict if they completed
    /// an answer; without one all of the input is done with. It is called until there is none, with
    /// no input at last where all was answered. `awaited` tells what the answered query asked. An
    /// answer's cells are delivered in the call that completes it.
    ///
    /// # Errors
    /// What came is not of the protocol, or too much.
    fn decode(
        &mut self,
        connection: &mut Self::Connection,
        input: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<(usize, Option<Verdict>), Unreadable>;

    /// What is to be said now that all that came was read, for a query that takes several ways:
    /// appends it to `out`. Such a query is one that cannot be sent again, which has its connection
    /// alone.
    fn goes_on(&mut self, connection: &mut Self::Connection, out: &mut Vec<u8>) {
        let _ = (connection, out);
    }

    /// The oldest query was not answered in time: the connection is given up. Only where answers
    /// come in order.
    fn was_late(&mut self, connection: &Self::Connection, awaited: &Awaited) {
        let _ = (connection, awaited);
    }

    /// The connection ended in order: what this completes, if anything.
    fn finish(
        &mut self,
        connection: &mut Self::Connection,
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Option<Verdict> {
        let _ = (connection, awaited, answers);
        None
    }
}
