//! Loans of a donor's accelerators, which someone grants: each has a key of its own.

use super::shared::{Loan, Shared, lock};
use crate::accelerator::request::Kind;
use crate::accelerator::units::{Member, Sharing};
use crate::guests::Guest;
use crate::loan::{LoanId, LoanKey};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a borrower with a loan waits for the accelerator of one whose loan is over: the job
/// that it had begun is done to its end, and no other.
const FREE_WITHIN: Duration = Duration::from_secs(10);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// There is none of that kind, or such a loan already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such accelerator to lend, or a loan of that number is there")]
pub struct NoAccelerator;

impl Shared {
    pub(super) fn grant(
        &self,
        id: LoanId,
        (kind, sharing): (Kind, Sharing),
        key: LoanKey,
    ) -> Result<(), NoAccelerator> {
        let has = self.units.iter().any(|units| units.kind == kind);
        let mut loans = lock(&self.loans);
        if !has || loans.contains_key(&id) {
            return Err(NoAccelerator);
        }
        let loan = Loan { kind, sharing, key };
        loans.insert(id, loan);
        Ok(())
    }

    pub(super) fn revoke(&self, id: LoanId) -> bool {
        let mut loans = lock(&self.loans);
        let was_there = loans.remove(&id).is_some();
        // Who comes with its key meanwhile finds no loan.
        self.guests.close_of(id);
        was_there
    }

    pub(super) fn lent(&self) -> Vec<(LoanId, Kind, Sharing)> {
        let loans = lock(&self.loans);
        let loans = loans.iter();
        loans
            .map(|(id, loan)| (*id, loan.kind, loan.sharing))
            .collect()
    }

    /// Lets a borrower in by its key: true where it has a loan, false where all have that key.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn admit(
        &self,
        guest: &Guest,
        key: &LoanKey,
        (kind, sharing): (u64, Sharing),
    ) -> Result<bool, String> {
        if self.offer.as_ref().is_some_and(|offer| offer.is_same(key)) {
            guest.stay();
            return Ok(false);
        }
        let loans = lock(&self.loans);
        let found = loans.iter().find(|(_, loan)| loan.key.is_same(key));
        let (id, loan) = found.ok_or("the key is another than this donor's")?;
        if (loan.kind.number(), loan.sharing) != (kind, sharing) {
            let how = match loan.sharing {
                Sharing::Shared => "in turn with others",
                Sharing::Exclusive => "alone",
            };
            return Err(format!(
                "loan {id} is of an accelerator {} {how}",
                loan.kind
            ));
        }
        // Of one that is shared, too: more would have more turns than the one share that it is, and
        // more mailboxes.
        if self.guests.has(*id) {
            return Err(format!("loan {id} is in use, by another connection"));
        }
        guest.stay_by(*id);
        Ok(true)
    }

    /// Joins for a loan: there is room for it, perhaps after a moment.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn join_soon(
        self: &Arc<Self>,
        guest: &Guest,
        mut join: impl FnMut() -> Result<Member, String>,
    ) -> Result<Member, String> {
        let until = Instant::now() + FREE_WITHIN;
        loop {
            let joined = join();
            if joined.is_ok() || guest.is_gone() || Instant::now() >= until {
                return joined;
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}
