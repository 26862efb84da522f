//! Who may use a node.

use super::options::Access;
use rhythm_venice::loan::LoanId;
use rhythm_venice::resource::Share;
use rhythm_venice::secret::Secret;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Loans of a node, which an agent grants: each has a key of its own.
#[derive(Debug, Default)]
pub(super) struct Loans(Mutex<BTreeMap<LoanId, (Share, Secret)>>);

impl Loans {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<LoanId, (Share, Secret)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn grant(&self, loan: LoanId, share: Share, key: Secret) {
        self.lock().insert(loan, (share, key));
    }

    pub(super) fn revoke(&self, loan: LoanId) -> bool {
        self.lock().remove(&loan).is_some()
    }

    pub(super) fn lent(&self) -> Vec<(LoanId, Share)> {
        let loans = self.lock();
        loans.iter().map(|(id, (share, _))| (*id, *share)).collect()
    }
}

/// As whom a front end was let in.
#[derive(Clone, Debug, Default)]
pub(super) struct Admitted {
    /// By which key.
    pub(super) key: Option<Secret>,
    /// By which loan.
    pub(super) loan: Option<LoanId>,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    access: Access,
    loans: Arc<Loans>,
}

impl Guard {
    pub(super) fn new(access: Access, loans: Arc<Loans>) -> Guard {
        Guard { access, loans }
    }

    /// Whether front ends have to show a key.
    pub(super) fn wants_key(&self) -> bool {
        !matches!(self.access, Access::Anybody)
    }

    /// Lets a front end in which has proven that it has the key for which `is_proven` holds.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn admit(
        &self,
        is_proven: impl Fn(&Secret) -> bool,
    ) -> Result<Admitted, &'static str> {
        match &self.access {
            Access::Anybody => Ok(Admitted::default()),
            Access::Key(key) if is_proven(key) => Ok(Admitted {
                key: Some(key.clone()),
                loan: None,
            }),
            Access::Key(_) => Err("the front end does not have this node's key"),
            Access::Loans => {
                let loans = self.loans.lock();
                let mut proven = loans.iter().filter(|(_, (_, key))| is_proven(key));
                let (loan, (_, key)) = proven.next().ok_or(
                    "the front end has the key of no loan of this node, or the loan is over",
                )?;
                Ok(Admitted {
                    key: Some(key.clone()),
                    loan: Some(*loan),
                })
            }
        }
    }
}
