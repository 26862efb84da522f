//! The quantum of a turn of the loop: what of it is for requests that may as well wait (the word is
//! that of fair queueing; Shreedhar and Varghese, *Deficit Round Robin*, 1995).
//!
//! It is counted in bytes of answers, since these can be told before they are made. How many it has
//! follows from how long turns take: what a byte costs is not the same from one machine to the
//! next, nor from one moment to the next (one that the system has to find new memory for costs it
//! 20 times as much as one that it has memory for at hand).

use crate::clients::input::Reading;
use crate::clients::upkeep::Upkeep;
use rhythm_net::TURN_MAX;
use std::time::Duration;

/// What a request counts at least.
pub(crate) const REQUEST_BYTES: usize = 4 * 1024;

/// The least quantum, the first one, and the largest: it is not much that may become dear in the
/// midst of a turn.
const QUANTUM_BYTES_MIN: usize = 4 * REQUEST_BYTES;
const QUANTUM_BYTES: usize = 16 * REQUEST_BYTES;
const QUANTUM_BYTES_MAX: usize = 64 * REQUEST_BYTES;

/// How long a turn may be by them: who comes in one such and is answered in the next has waited no
/// longer than a turn at most.
const WAITING_MAX: Duration = Duration::from_nanos(TURN_MAX.as_nanos() as u64 / 2);

/// What of a turn is for requests that may as well wait.
#[derive(Debug)]
pub(crate) struct Quantum {
    /// Bytes for a turn.
    size: usize,
    /// What is left in this one.
    left: usize,
}

impl Quantum {
    pub(crate) fn new() -> Quantum {
        Quantum {
            size: QUANTUM_BYTES,
            left: QUANTUM_BYTES,
        }
    }

    /// Whether there is some left.
    #[inline]
    pub(crate) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// A request is taken whose answer is to have so many bytes.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// The turn is over, which took so long. The next has its own: what was too much is halved,
    /// what was too little doubled.
    pub(crate) fn renew(&mut self, took: Duration) {
        if took > WAITING_MAX {
            self.size = (self.size / 2).max(QUANTUM_BYTES_MIN);
        } else if self.left == 0 {
            self.size = (self.size * 2).min(QUANTUM_BYTES_MAX);
        }
        self.left = self.size;
    }
}

/// Whether a request may be taken in this turn that could as well wait.
#[inline]
pub(crate) fn is_its_turn(quantum: &Quantum, upkeep: &Upkeep, reading: &Reading<'_>) -> bool {
    quantum.is_left() && (reading.resumes() || upkeep.unstalled.is_empty())
}
