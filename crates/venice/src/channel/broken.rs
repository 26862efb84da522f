//! Why a channel cannot be used any further: its peer does not keep to the protocol, or refuses.

use super::ramt::OutOfWindow;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// What a peer did. The connection is over; a QPair's messages are not lost for that.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    /// Another protocol, or another version.
    #[error("these are not frames of rhythm venice's channels, or of another version")]
    Magic,
    /// A kind that there is not.
    #[error("a frame of unknown kind {0}")]
    Kind(u32),
    /// A length that its kind cannot have.
    #[error("a frame of {length} bytes, which {kind} cannot have")]
    Length {
        /// The frame's kind.
        kind: String,
        /// What it says.
        length: u32,
    },
    /// What came is not what was sent.
    #[error("the checksum of a frame is wrong: the network or a memory changes bytes")]
    Checksum,
    /// A kind that nobody expects at this end, or not now.
    #[error("{0} is not due here")]
    NotDue(String),
    /// An answer to what was not asked, or another than was.
    #[error("an answer to what was not asked")]
    Unasked,
    /// A message that is not the next.
    #[error("message {came} came where {due} is due")]
    OutOfOrder {
        /// The next.
        due: u64,
        /// What came.
        came: u64,
    },
    /// A message without credit.
    #[error("message {came} came, and credits go up to {until}")]
    NoCredit {
        /// What came.
        came: u64,
        /// Credits go to before this one.
        until: u64,
    },
    /// Credits for more than the buffers that were agreed, or fewer than there were.
    #[error("credits up to message {until}, where they can go from {least} to {most} only")]
    FalseCredit {
        /// What it says.
        until: u64,
        /// The least it may say.
        least: u64,
        /// The most it may say.
        most: u64,
    },
    /// A message that is longer than was agreed.
    #[error("a message of {bytes} bytes, of at most {most}")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// The ends do not agree on how long messages are, or how many wait.
    #[error("its queues are of {theirs}, ours of {ours}: give both ends the same")]
    OtherQueue {
        /// Messages and their bytes there.
        theirs: String,
        /// Messages and their bytes here.
        ours: String,
    },
    /// What it says is missing was not sent yet, or it had it before.
    #[error("it waits for message {due}, and {least} to {most} are here")]
    NotKept {
        /// What it waits for.
        due: u64,
        /// The oldest that is kept.
        least: u64,
        /// The next to be made.
        most: u64,
    },
    /// More bulk transfers than may be under way.
    #[error("more than {0} bulk transfers at a time")]
    Crowded(usize),
    /// An address that is in no window.
    #[error(transparent)]
    OutOfWindow(#[from] OutOfWindow),
    /// What the memory's owner says.
    #[error("{0}")]
    Memory(String),
    /// The peer refuses, and says why.
    #[error("it refuses: {0}")]
    Refused(String),
    /// Positions in shared memory that cannot be.
    #[error("the positions of a shared ring are impossible: the other end is broken")]
    Ring,
}

/// Why a channel's connection is over.
#[derive(Debug, Error)]
pub enum Lost {
    /// The connection cannot be made, or broke.
    #[error("the connection is lost: {0}")]
    Io(#[from] io::Error),
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end does not keep to the protocol, or refuses.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// It says nothing any more.
    #[error("the other end has said nothing for {} s", .0.as_secs())]
    Silent(Duration),
}

impl From<OutOfWindow> for Lost {
    fn from(error: OutOfWindow) -> Self {
        Self::Broken(error.into())
    }
}
