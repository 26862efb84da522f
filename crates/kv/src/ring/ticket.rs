//! What a worker waits for.

/// Names what a worker waits for: its number among the workers, and the worker's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The worker.
    pub worker: usize,
    /// Its number.
    pub number: u64,
}
