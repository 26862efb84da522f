//! The loans of a donor.

use crate::guests::Guests;
use crate::loan::{LoanId, LoanKey};
use crate::memory::mapping::Mapping;
use rustix::net::{Shutdown, shutdown};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;
use tracing::warn;

/// Connections at a time, of all borrowers.
pub(super) const CONNECTIONS_MAX: usize = 256;

/// So much is zeroed by who takes a loan back.
const AT_ONCE: u64 = 64 << 20;

/// What loans of an offer are numbered from: no monitor counts this far.
pub(super) const OWN_LOANS: u64 = 1_000_000_000_000;

/// More was asked for than is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{wanted} bytes are wanted, and {left} of {all} are not lent yet")]
pub struct NoRoom {
    /// Bytes asked for.
    pub wanted: u64,
    /// Bytes not lent.
    pub left: u64,
    /// Bytes that may be lent.
    pub all: u64,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// Bytes that may be lent in all.
    pub(super) memory: u64,
    pub(super) loans: Mutex<Loans>,
    pub(super) guests: Arc<Guests>,
    pub(super) closing: AtomicBool,
}

#[derive(Debug, Default)]
pub(super) struct Loans {
    pub(super) granted: HashMap<LoanId, Arc<Loan>>,
    /// Those that are over, as long as their memory is not the system's.
    ended: Vec<Arc<Loan>>,
    pub(super) offer: Option<LoanKey>,
    pub(super) next_own: u64,
}

#[derive(Debug)]
pub(super) struct Loan {
    pub(super) id: LoanId,
    pub(super) bytes: u64,
    pub(super) key: LoanKey,
    pub(super) state: Mutex<LoanState>,
    /// Bytes of its memory that nobody has any more, and that are not zeroed yet.
    zeroing: AtomicU64,
}

/// What was a loan's memory, zeroed and given back when this is dropped.
#[derive(Debug)]
pub(super) struct Returned {
    loan: Arc<Loan>,
    memory: Option<Mapping>,
    bytes: u64,
}

impl Drop for Returned {
    fn drop(&mut self) {
        drop(self.memory.take());
        self.loan.zeroing.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[derive(Debug, Default)]
pub(super) struct LoanState {
    /// There while a borrower is connected.
    pub(super) memory: Option<Mapping>,
    /// The borrower that has it, or had it last.
    pub(super) session: Option<u64>,
    /// Their sockets, to be shut down.
    pub(super) connections: HashMap<u64, OwnedFd>,
    pub(super) next_connection: u64,
    pub(super) revoked: bool,
}

/// What a poisoned lock guards is whole: nothing that holds one is left half done by a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(memory: u64) -> Self {
        Self {
            memory,
            loans: Mutex::default(),
            guests: Guests::new(CONNECTIONS_MAX),
            closing: AtomicBool::new(false),
        }
    }

    pub(super) fn add(
        &self,
        loans: &mut Loans,
        id: LoanId,
        bytes: u64,
        key: LoanKey,
    ) -> Result<Arc<Loan>, NoRoom> {
        let lent: u64 = loans.granted.values().map(|loan| loan.bytes).sum();
        let zeroing = |loan: &Loan| loan.zeroing.load(Ordering::Acquire);
        loans.ended.retain(|loan| zeroing(loan) > 0);
        let ended: u64 = loans.ended.iter().map(|loan| zeroing(loan)).sum();
        let taken = lent.saturating_add(ended);
        let left = self.memory.saturating_sub(taken);
        if bytes > left {
            return Err(NoRoom {
                wanted: bytes,
                left,
                all: self.memory,
            });
        }
        let loan = Arc::new(Loan {
            id,
            bytes,
            key,
            state: Mutex::default(),
            zeroing: AtomicU64::new(0),
        });
        loans.granted.insert(id, Arc::clone(&loan));
        Ok(loan)
    }

    /// Ends a loan, and zeroes its memory. So much that it takes a while is left to a thread: who
    /// calls this may have heartbeats to say. False where there is no such loan.
    pub(super) fn revoke(&self, id: LoanId) -> bool {
        let memory = {
            let mut loans = lock(&self.loans);
            let Some(loan) = loans.granted.remove(&id) else {
                return false;
            };
            let memory = loan.end();
            // Not lent anew before it is the system's.
            loans.ended.push(loan);
            memory
        };
        if memory.bytes > AT_ONCE {
            let zero = std::thread::Builder::new().name("zeroing".to_owned());
            if let Err(error) = zero.spawn(move || drop(memory)) {
                // It was dropped with what the thread was to do.
                warn!("memory is zeroed without a thread: {error}");
            }
        }
        true
    }

    /// The last connection to a loan is gone.
    pub(super) fn left(&self, loan: &Loan) {
        if loan.id.0 >= OWN_LOANS {
            lock(&self.loans).granted.remove(&loan.id);
        }
    }
}

impl Loans {
    /// Whether memory of somebody who has left is not the system's yet.
    pub(super) fn has_leaving(&mut self) -> bool {
        let is_left = |loan: &Arc<Loan>| loan.id.0 >= OWN_LOANS && lock(&loan.state).revoked;
        !self.zeroing().is_empty() || self.granted.values().any(is_left)
    }

    /// Those that are over, and not zeroed.
    pub(super) fn zeroing(&mut self) -> Vec<(LoanId, u64)> {
        (self.ended).retain(|loan| loan.zeroing.load(Ordering::Acquire) > 0);
        let ended = self.ended.iter();
        ended.map(|loan| (loan.id, loan.bytes)).collect()
    }
}

impl LoanState {
    /// Whether a borrower has it.
    pub(super) fn is_of(&self, session: u64) -> bool {
        !self.revoked && self.session == Some(session)
    }
}

impl Loan {
    /// Its memory, which nobody uses from now on.
    #[must_use]
    pub(super) fn take_memory(self: &Arc<Self>, state: &mut LoanState) -> Returned {
        let memory = state.memory.take();
        let bytes = memory.as_ref().map_or(0, Mapping::used);
        self.zeroing.fetch_add(bytes, Ordering::AcqRel);
        Returned {
            loan: Arc::clone(self),
            memory,
            bytes,
        }
    }

    /// Nobody uses it from now on; what its memory was.
    #[must_use]
    fn end(self: &Arc<Self>) -> Returned {
        let mut state = lock(&self.state);
        state.revoked = true;
        for stream in state.connections.values() {
            let _ = shutdown(stream, Shutdown::Both);
        }
        self.take_memory(&mut state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_zeroed_when_its_loan_ends_is_not_lent_anew_before() {
        let (shared, bytes) = (Shared::new(4096), 4096);
        let add = |id| {
            let mut loans = lock(&shared.loans);
            shared.add(&mut loans, LoanId(id), bytes, LoanKey([0; 32]))
        };
        let loan = add(1).unwrap();
        let mut memory = Mapping::new(4096).unwrap();
        assert!(memory.put(0, b"x"));
        lock(&loan.state).memory = Some(memory);
        // Its borrower has left, just before it is taken back.
        let left = loan.take_memory(&mut lock(&loan.state));
        assert!(shared.revoke(LoanId(1)));
        assert_eq!(add(2).map(|loan| loan.id).map_err(|no| no.left), Err(0));
        drop(left);
        assert!(add(2).is_ok());
    }
}
