//! What a node wants done, and who waits for it.

use super::super::ticket::Ticket;

/// Why a command that was forwarded has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// No node that serves its range could be reached, or would have it: nothing was done.
    NotDone,
    /// A node was to execute it, and has gone, or what it wrote: nobody knows whether it was done.
    Unknown,
}

/// What is to be done for a node.
#[derive(Debug, Default)]
pub struct Effects {
    /// Frames for each node, one behind the other.
    pub frames: Vec<Vec<u8>>,
    /// What was written under these tickets is where it has to be.
    pub released: Vec<Ticket>,
    /// What was written under these tickets may be lost: nobody knows.
    pub broken: Vec<Ticket>,
    /// Answers to commands that were forwarded.
    pub answers: Vec<(Ticket, Result<Vec<u8>, Unanswered>)>,
    /// Commands to be executed, and told by `Node::executed`.
    pub executes: Vec<Execute>,
    /// All workers are to have handed over what they wrote until now: then `Node::fenced`.
    pub fence: Option<u64>,
    /// What is to be said on the connection on which a frame came, that its sender is refused.
    pub refusal: Vec<u8>,
}

/// Who wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A client of this node.
    Here(u64),
    /// A client of another, when so much had been lost with it.
    There {
        node: usize,
        losses: u64,
        number: u64,
    },
}

/// A command to be executed on this node's store.
#[derive(Debug, PartialEq, Eq)]
pub struct Execute {
    pub(super) origin: Origin,
    /// Its answer shows what may not be confirmed yet of this range, and waits until it is.
    pub(super) shows: Option<usize>,
    /// The command, whole, as a client wrote it.
    pub command: Vec<u8>,
}
