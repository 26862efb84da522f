//! What the threads are asked: the workers from outside and by the thread of the ring, and that one
//! by the workers.

use crate::registration::News;
use crate::ring::{Road, Unanswered, Written};
use rhythm_net::Inbox;
use std::time::Duration;

/// How long a server that ends gracefully waits for its clients to take their answers.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// What a worker is asked.
#[derive(Debug)]
pub(super) enum Order {
    /// Other users may come in from now on: those that are said for all threads.
    Users,
    /// End when what has come is answered and the answers are taken, or when it is said for all
    /// threads.
    End,
    /// What the ring tells.
    Ring(Told),
}

/// What the ring tells a worker.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// All tickets up to this one are released, but for those that are broken.
    pub(super) released: Option<u64>,
    /// Of what was written under these tickets nobody knows what becomes, and of no others.
    pub(super) broken: Vec<u64>,
    /// Answers to commands that were passed on, by their numbers.
    pub(super) answers: Vec<(u64, Result<Vec<u8>, Unanswered>)>,
    /// To be answered when all that was written until now is handed over.
    pub(super) fence: Option<u64>,
}

impl Told {
    /// Whether it is nothing.
    pub(super) fn is_empty(&self) -> bool {
        let is_quiet = self.released.is_none() && self.fence.is_none();
        is_quiet && self.broken.is_empty() && self.answers.is_empty()
    }
}

/// What the thread of the ring is asked.
#[derive(Debug)]
pub(super) enum RingOrder {
    /// These are the workers.
    Workers(Vec<Inbox<Order>>),
    /// What a worker's turn, or several, wrote and could not execute.
    Turn {
        /// Which worker.
        worker: usize,
        /// Its ticket for what was written.
        ticket: u64,
        written: Written,
        /// Answers wait for the ticket, though nothing may have been written.
        is_awaited: bool,
        forwards: Vec<Forward>,
    },
    /// All that this worker wrote before a fence is handed over.
    Fenced { worker: usize, fence: u64 },
    /// What etcd says of the nodes, and of this one's lease.
    News(News),
    /// Leave the ring: hand over what is served here, and have the workers end then.
    Leave,
    /// They have: end, too.
    Go,
}

/// A command whose key another node serves.
#[derive(Debug)]
pub(super) struct Forward {
    /// Under which its answer comes.
    pub(super) number: u64,
    /// Which way it goes.
    pub(super) road: Road,
    /// As its client wrote it.
    pub(super) command: Vec<u8>,
}
