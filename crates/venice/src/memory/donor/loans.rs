//! The loans of a donor.

use crate::loan::{LoanId, LoanKey};
use crate::memory::mapping::Mapping;
use rustix::net::{Shutdown, shutdown};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;
use tracing::warn;

/// So much is zeroed by who takes a loan back.
const AT_ONCE: u64 = 64 << 20;

/// Connections at a time, of all borrowers.
pub(super) const CONNECTIONS_MAX: usize = 256;
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
    pub(super) connections: AtomicUsize,
    pub(super) closing: AtomicBool,
    /// Bytes that are zeroed just now, and not given back yet.
    zeroing: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Loans {
    pub(super) granted: HashMap<LoanId, Arc<Loan>>,
    pub(super) offer: Option<LoanKey>,
    pub(super) next_own: u64,
}

#[derive(Debug)]
pub(super) struct Loan {
    pub(super) id: LoanId,
    pub(super) bytes: u64,
    pub(super) key: LoanKey,
    pub(super) state: Mutex<LoanState>,
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
            connections: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            zeroing: AtomicU64::new(0),
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
        let taken = lent.saturating_add(self.zeroing.load(Ordering::Acquire));
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
        });
        loans.granted.insert(id, Arc::clone(&loan));
        Ok(loan)
    }

    /// Zeroes a loan's memory, and gives it back. So much that it takes a while is left to a
    /// thread: who calls this may have heartbeats to say.
    pub(super) fn end(self: &Arc<Self>, loan: &Loan) {
        let memory = loan.end();
        let bytes = memory.as_ref().map_or(0, Mapping::used);
        if bytes <= AT_ONCE {
            return;
        }
        // Not lent anew before it is the system's.
        self.zeroing.fetch_add(bytes, Ordering::AcqRel);
        let shared = Arc::clone(self);
        let zero = move || {
            drop(memory);
            shared.zeroing.fetch_sub(bytes, Ordering::AcqRel);
        };
        let name = "zeroing".to_owned();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(zero) {
            // It was dropped with what the thread was to do.
            warn!("memory is zeroed without a thread: {error}");
            self.zeroing.fetch_sub(bytes, Ordering::AcqRel);
        }
    }

    /// The last connection to a loan is gone.
    pub(super) fn left(&self, loan: &Loan) {
        if loan.id.0 >= OWN_LOANS {
            lock(&self.loans).granted.remove(&loan.id);
        }
    }
}

impl LoanState {
    /// Whether a borrower has it.
    pub(super) fn is_of(&self, session: u64) -> bool {
        !self.revoked && self.session == Some(session)
    }
}

impl Loan {
    /// Nobody uses it from now on; what its memory was.
    #[must_use]
    fn end(&self) -> Option<Mapping> {
        let mut state = lock(&self.state);
        state.revoked = true;
        for stream in state.connections.values() {
            let _ = shutdown(stream, Shutdown::Both);
        }
        state.memory.take()
    }
}
