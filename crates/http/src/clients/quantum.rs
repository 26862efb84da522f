//! The quantum of a turn of the loop: what of it is for requests that may as well wait (the word is
//! that of fair queueing; Shreedhar and Varghese, *Deficit Round Robin*, 1995).
//!
//! It is counted in bytes of answers, since these can be told before they are made. How many it has
//! follows from how long turns take: what a byte costs is not the same from one machine to the
//! next, nor from one moment to the next (one that the system has to find new memory for costs it
//! 20 times as much as one that it has memory for at hand). So it is taken in slices, and what one
//! has cost is known before there is another.

use crate::clients::input::Reading;
use crate::clients::upkeep::Upkeep;
use rhythm_net::TURN_MAX;
use std::time::Duration;

/// What a request counts at least.
pub(crate) const REQUEST_BYTES: usize = 4 * 1024;

/// The least quantum, the first one, and the largest; the least is the least slice, too.
const QUANTUM_BYTES_MIN: usize = 4 * REQUEST_BYTES;
const QUANTUM_BYTES: usize = 16 * REQUEST_BYTES;
const QUANTUM_BYTES_MAX: usize = 64 * REQUEST_BYTES;

/// So many slices it has where it is large: who asks for much at a time has cohorts all the same.
const SLICES: usize = 4;

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
    /// And of that in the slice at hand.
    slice: usize,
}

impl Quantum {
    pub(crate) fn new() -> Quantum {
        let mut quantum = Quantum {
            size: QUANTUM_BYTES,
            left: QUANTUM_BYTES,
            slice: 0,
        };
        quantum.next_slice(Duration::ZERO);
        quantum
    }

    /// Whether there is some left of the slice at hand.
    #[inline]
    pub(crate) fn is_left(&self) -> bool {
        self.slice > 0
    }

    /// There is another slice, if some is left and the turn has not taken as long as it may.
    pub(crate) fn next_slice(&mut self, took: Duration) {
        let slice = (self.size / SLICES).max(QUANTUM_BYTES_MIN);
        self.slice = match took < WAITING_MAX {
            true => slice.min(self.left),
            false => 0,
        };
    }

    /// A request is taken whose answer is to have so many bytes.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        self.slice = self.slice.saturating_sub(bytes);
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
        self.next_slice(Duration::ZERO);
    }
}

/// Whether a request may be taken in this turn that could as well wait.
#[inline]
pub(crate) fn is_its_turn(quantum: &Quantum, upkeep: &Upkeep, reading: &Reading<'_>) -> bool {
    quantum.is_left() && (reading.resumes() || upkeep.unstalled.is_empty())
}
