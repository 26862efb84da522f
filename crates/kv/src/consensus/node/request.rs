//! What a node is asked, what it answers, and how it is set up.

use crate::consensus::journal::Damaged;
use crate::consensus::keyspace::{Change, Command, Item, Outcome};
use std::io;

/// What a client asked, by a number of who asks for it.
pub type Ticket = u64;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Changes something.
    Change(Command),
    /// Changes nothing.
    Read(Read),
}

/// What can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// What is under a key.
    Item(Vec<u8>),
    /// How far the keyspace is.
    Revision,
}

/// What is said to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A change was executed.
    Done(Outcome),
    /// What is under the key.
    Item(Option<Item>),
    /// How far the keyspace is.
    Revision(u64),
    /// Most nodes could not be reached, and nothing was or will be done.
    NothingDone,
    /// Most nodes could not be reached in time; it may be done yet.
    PerhapsDone,
    /// The disk is full, and nothing was or will be done.
    DiskFull,
}

/// How a node is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which of the nodes it is, from 1.
    pub id: u64,
    /// How many there are.
    pub nodes: u64,
    /// What frames are signed with: the same for all nodes of a keyspace, and for no others.
    pub digest: u64,
    /// Which node of which keyspace it is, as a number: stays as long as its journal does.
    pub whose: u64,
    /// Any number, another for each node.
    pub seed: u64,
    /// Grows from start to start, by the clock of the wall: so a node that begins anew, without
    /// what it had written, is not taken for the one it was.
    pub started: u64,
    /// Bytes of the journal beyond which what it says is summed up.
    pub journal_bytes: u64,
}

/// Why a node cannot go on from where it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What was written is not there any more.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// It was found to lack what the node had confirmed.
    #[error(
        "this node had forgotten what it confirmed to others, and ended with that: it may not go \
         on; docs/kv-keyspace.md says how to replace a node whose folder is lost"
    )]
    Forgotten,
    /// It is what another node wrote.
    #[error(
        "the journal is of another node, or of a keyspace of other nodes: say the --node and the \
         file of nodes that it was begun with (addresses may change, names and their order may not)"
    )]
    OfAnother,
    /// Nothing can be written.
    #[error("the journal cannot be written: {0}")]
    Unwritten(io::Error),
    /// What was written makes no sense.
    #[error("the journal is not of this keyspace, or of another version: {0}")]
    Unfit(String),
}

/// Why a node must not go on.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// Nobody knows what is on the disk.
    #[error("the journal cannot be written: {0}")]
    Unwritten(io::Error),
    /// It lacks what it confirmed, and does not start from its journal any more.
    #[error(
        "another node has what this one confirmed to it, and this one has not: its journal was \
         lost or cut; docs/kv-keyspace.md says how to replace a node whose folder is lost"
    )]
    Forgotten,
    /// What other nodes have to say cannot be executed here.
    #[error(
        "{0} is of another version of this program: start this node in the release of the others"
    )]
    Unknown(String),
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Effects {
    /// Frames, and the nodes that they are for.
    pub frames: Vec<(u64, Vec<u8>)>,
    /// Answers.
    pub answers: Vec<(Ticket, Answer)>,
    /// What became of the keyspace.
    pub changes: Vec<Change>,
    /// More became of it than `changes` says.
    pub skipped: bool,
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which node leads, as far as this one knows; 0: none.
    pub leader: u64,
    /// Whether that is this one.
    pub leads: bool,
    /// The how-manieth leader's time it is.
    pub term: u64,
    /// Up to which place of the log all is agreed on.
    pub committed: u64,
    /// Up to which it is executed.
    pub applied: u64,
    /// Entries of the log that were executed since its start.
    pub executed: u64,
    /// Writes of clients are refused: there is no room on the disk.
    pub is_full: bool,
}
