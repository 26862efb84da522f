//! Where an answer goes and what its request asks of its shape.

pub(crate) mod body;
pub(crate) mod error_page;
pub(crate) mod framing;

use rhythm_net::{Client, ConnectionId, Role, Time};
use rhythm_protocol::http::encoding::Encodings;

/// Names the answer owed to one request: its connection, and its place in the order of that
/// connection's answers.
///
/// A slot kept too long names nothing: its connection is gone, or its answer given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnswerSlot {
    /// Where the answer goes.
    pub connection: ConnectionId,
    /// Requests of the connection are numbered as they are taken.
    pub ordinal: u32,
}

/// Names a host among those of a thread ([`Hosts`](crate::Hosts)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId(pub(crate) u16);

/// What an answer's shape takes from its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerShape {
    /// `HEAD`: no body is sent.
    pub head_only: bool,
    /// The client speaks HTTP/1.0.
    pub http10: bool,
    /// The connection ends after this answer.
    pub close: bool,
    /// Errors are told as JSON.
    pub json: bool,
    /// The encodings in which the client takes a body: what answers has it in one or several, and
    /// chooses.
    pub accepts: Encodings,
}

impl AnswerShape {
    /// Whether a head says nothing of it, and a body follows.
    #[inline]
    pub fn is_plain(&self) -> bool {
        !(self.head_only || self.http10 || self.close)
    }
}

/// The answer that is owed to a request.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    /// Where it goes.
    pub slot: AnswerSlot,
    /// What its shape takes from the request.
    pub shape: AnswerShape,
    /// Where the client is.
    pub peer: Client,
    /// What the listener is for at which it came in.
    pub role: Role,
    /// When the first of the request's bytes came, where they did not come all at once, or it had
    /// to wait to be taken.
    pub began: Option<Time>,
}

/// An answer of a host that is over, or what was sent of one that was cut off; `None` where nothing
/// was.
pub type Given = (AnswerSlot, Option<Answered>);

/// An answer, for log and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its status.
    pub status: u16,
    /// Bytes of its body that were sent: none to HEAD, without the framing of chunks.
    pub body_length: u64,
}

impl Answered {
    /// An answer without a body.
    pub fn bare(status: u16) -> Answered {
        Answered {
            status,
            body_length: 0,
        }
    }
}
