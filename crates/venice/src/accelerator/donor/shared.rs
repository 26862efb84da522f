//! What a donor's connections have in common.

use super::options::Options;
use crate::accelerator::mailbox::{CAPACITY_MAX, Layout, Mailbox};
use crate::accelerator::request::Kind;
use crate::accelerator::units::{Member, Sharing, Units};
use crate::guests::{Guest, Guests};
use crate::loan::{LoanId, LoanKey};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a connection takes besides its mailbox, at most: messages and frames each way.
const CONNECTION_BYTES: u64 = 1 << 20;

/// A loan that someone has granted.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) kind: Kind,
    pub(super) sharing: Sharing,
    pub(super) key: LoanKey,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) offer: Option<LoanKey>,
    pub(super) loans: Mutex<BTreeMap<LoanId, Loan>>,
    pub(super) units: Vec<Arc<Units>>,
    /// Bytes of mailboxes: of all, and those in use.
    memory: u64,
    used: Mutex<u64>,
    pub(super) guests: Arc<Guests>,
    closing: AtomicBool,
}

/// What a poisoned lock guards is whole: nothing panics between its parts.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(options: &Options) -> Self {
        let units = options.accelerators.iter();
        Self {
            offer: options.offer.clone(),
            loans: Mutex::default(),
            units: units
                .map(|(kind, count)| Units::new(*kind, *count))
                .collect(),
            memory: options.memory,
            used: Mutex::default(),
            guests: Guests::new(options.connections),
            closing: AtomicBool::new(false),
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Ends what there is, and what comes.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.guests.close();
    }

    /// A mailbox for a borrower, and its part in the accelerators.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn enter(
        self: &Arc<Self>,
        guest: &Guest,
        (kind, capacity): (u64, u64),
        key: &LoanKey,
        sharing: Sharing,
    ) -> Result<Entered, String> {
        let has_loan = self.admit(guest, key, (kind, sharing))?;
        let Some(units) = self.units.iter().find(|units| units.kind.number() == kind) else {
            let offered: Vec<_> = self.units.iter().map(|u| u.kind.to_string()).collect();
            let wanted = Kind::of(kind).map_or_else(|| kind.to_string(), |kind| kind.to_string());
            let offered = offered.join(",");
            return Err(format!(
                "there is no accelerator for {wanted} here, but {offered}"
            ));
        };
        let layout = Layout::new(capacity).ok_or_else(|| {
            format!("a mailbox for inputs of {capacity} bytes: 1 to {CAPACITY_MAX} are allowed")
        })?;
        let lease = self.lease(layout.bytes() as u64 + CONNECTION_BYTES)?;
        let waits = || match guest.is_gone() {
            true => Err("it is gone".into()),
            false => Ok(()),
        };
        let member = match has_loan {
            true => self.join_soon(guest, || units.join(sharing, waits)),
            false => units.join(sharing, waits),
        }?;
        Ok(Entered {
            mailbox: Mailbox::new(layout),
            member,
            _lease: lease,
        })
    }

    fn lease(self: &Arc<Self>, bytes: u64) -> Result<Lease, String> {
        let mut used = lock(&self.used);
        let left = self.memory - *used;
        if bytes > left {
            return Err(format!(
                "a mailbox takes {bytes} bytes, and {left} of {} are left: try later, or have a \
                 smaller one",
                self.memory
            ));
        }
        *used += bytes;
        let shared = Arc::clone(self);
        Ok(Lease { shared, bytes })
    }
}

/// Bytes that are in use.
#[derive(Debug)]
struct Lease {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        *lock(&self.shared.used) -= self.bytes;
    }
}

/// A borrower's mailbox, and its part in the accelerators. The former is zeroed before its memory
/// counts as free.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) mailbox: Mailbox,
    pub(super) member: Member,
    _lease: Lease,
}
