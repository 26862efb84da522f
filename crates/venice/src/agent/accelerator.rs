//! Accelerators of donors that the monitor finds, by the agent of this machine: lent and borrowed.

use super::client::{Asker, BorrowError, Borrowed};
use super::lender::{Lender, NoRoom};
use crate::accelerator::borrower::{Accelerator, Error, Job, Sharing};
use crate::accelerator::donor::Accelerators;
use crate::accelerator::request::Kind;
use crate::identity::{Identity, Sealing};
use crate::loan::{LoanId, LoanKey};
use crate::remote::Place;
use crate::resource::{self, Share};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An accelerator that the monitor has found. It is given back when this is dropped.
#[derive(Debug)]
pub struct BorrowedAccelerator {
    accelerator: Accelerator,
    borrowed: Borrowed,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum AcceleratorError {
    /// Nobody lends one.
    #[error(transparent)]
    NotLent(#[from] BorrowError),
    /// The donor is to be spoken with in TLS, and that cannot begin.
    #[error("the identity of this machine's agent, for the donor: {0}")]
    Identity(String),
    /// The donor is not reached, or refuses.
    #[error(transparent)]
    Donor(#[from] Error),
}

/// What a loan is to have for this.
fn share(kind: Kind, sharing: Sharing) -> Share {
    Share::of_one(kind.resource(), sharing == Sharing::Exclusive)
}

impl BorrowedAccelerator {
    /// Borrows one, for inputs of `capacity` bytes, of the donor that the monitor chooses. It waits
    /// for a loan at most so long.
    ///
    /// # Errors
    /// [`AcceleratorError`]: nobody lends one, or its donor does not give it.
    pub fn borrow(
        asker: &Asker,
        kind: Kind,
        sharing: Sharing,
        capacity: usize,
        patience: Duration,
    ) -> Result<Self, AcceleratorError> {
        let borrowed = asker.borrow(share(kind, sharing), &[], patience)?;
        let place = match &borrowed.sealed {
            None => Place::Tcp(borrowed.donor),
            Some(by) => {
                let identity = Identity::open(Path::new(&by.identity));
                let identity =
                    identity.map_err(|error| AcceleratorError::Identity(error.to_string()))?;
                let (identity, donor) = (Arc::new(identity), by.node.clone());
                Place::Sealed(borrowed.donor, Sealing { identity, donor })
            }
        };
        let accelerator = Accelerator::connect(&place, &borrowed.key, kind, sharing, capacity)?;
        Ok(BorrowedAccelerator {
            accelerator,
            borrowed,
        })
    }

    /// As [`Accelerator::run`].
    ///
    /// # Errors
    /// As there. Where the accelerator is lost, so is the loan: drop this, and borrow another.
    pub fn run(&mut self, job: &Job<'_>) -> Result<Vec<u8>, Error> {
        self.accelerator.run(job)
    }

    /// Which loan it is: what is said of it by [`Client::events`](super::client::Client::events).
    pub fn loan(&self) -> LoanId {
        self.borrowed.loan
    }

    /// Whose it is.
    pub fn donor(&self) -> SocketAddr {
        self.borrowed.donor
    }
}

impl Lender for Accelerators {
    fn grant(&mut self, loan: LoanId, share: Share, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        let mut kinds = Kind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.resource() == share.kind);
        let sharing = match share.is_alone() {
            true => Sharing::Exclusive,
            false => Sharing::Shared,
        };
        let granted = kind.is_some_and(|kind| {
            Accelerators::grant(self, loan, (kind, sharing), key.clone()).is_ok()
        });
        match granted {
            true => Ok(self.address()),
            false => Err(NoRoom),
        }
    }

    fn is_sealed(&self, _: resource::Kind) -> bool {
        Accelerators::is_sealed(self)
    }

    fn revoke(&mut self, loan: LoanId) {
        Accelerators::revoke(self, loan);
    }

    fn lent(&self) -> Vec<(LoanId, Share)> {
        let all = Accelerators::lent(self).into_iter();
        all.map(|(loan, kind, sharing)| (loan, share(kind, sharing)))
            .collect()
    }
}
