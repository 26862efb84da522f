//! What a monitor must not forget, and who keeps it.
//!
//! It is little: which loans there are, so that after a restart each can be compared with what both
//! ends know of it, and which numbers loans had, so that none is used twice. Keys are not kept.

use crate::loan::LoanId;
use crate::name::NodeName;
use crate::resource::Share;
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::io;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A donor is about to be asked.
    Begun(Kept),
    /// It lends.
    Stands(LoanId),
    /// The loan is over, and the donor has it no more.
    Gone(LoanId),
}

/// A loan, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub loan: LoanId,
    /// Whose it is.
    pub lender: NodeName,
    /// Whose it is to be.
    pub borrower: NodeName,
    /// Of what, and how much.
    pub share: Share,
    /// Since when, in seconds since 1970-01-01T00:00:00Z.
    pub since: u64,
    /// Whether the donor has said that it lends.
    pub stands: bool,
}

/// Everything that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The number of the last loan.
    pub last: u64,
    /// The loans that there are.
    pub loans: BTreeMap<LoanId, Kept>,
}

impl State {
    /// Takes in what happened. False: it cannot have happened.
    pub fn take(&mut self, record: &Record) -> bool {
        match record {
            Record::Begun(kept) => {
                let is_new = kept.loan.0 > self.last;
                self.last = self.last.max(kept.loan.0);
                self.loans.insert(kept.loan, kept.clone());
                is_new
            }
            Record::Stands(loan) => match self.loans.get_mut(loan) {
                Some(kept) => !std::mem::replace(&mut kept.stands, true),
                None => false,
            },
            Record::Gone(loan) => self.loans.remove(loan).is_some(),
        }
    }
}

/// Why something is not kept, or is perhaps.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The disk.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// This monitor leads no more, and another may.
    #[error("this monitor leads no more: {0}")]
    Deposed(String),
}

/// Keeps a monitor's state: in a file of this machine, or in etcd, for the one of several monitors
/// that leads.
pub trait Keeper: Send {
    /// Keeps what happened: when it returns, that is there, whatever happens; all of it but what
    /// happened to the loans that it returns, in order, for which there is no room: these are as if
    /// that had not happened. That a loan is gone can always be kept, or need not be.
    ///
    /// # Errors
    /// Nobody knows what is kept. The monitor ends, and tells nobody of any of it.
    fn keep(&mut self, records: &[Record]) -> Result<Vec<LoanId>, NotKept>;

    /// Whether there will be room for what is kept next; where not, nothing new is lent.
    fn has_room(&mut self) -> bool;

    /// Until when it is this monitor that lends, unless that is prolonged: then it may tell nobody
    /// of anything.
    fn leads_until(&self) -> Time {
        Time::NEVER
    }

    /// Whether it still is, at this moment.
    fn leads(&self) -> bool {
        true
    }
}

impl Keeper for Box<dyn Keeper> {
    fn keep(&mut self, records: &[Record]) -> Result<Vec<LoanId>, NotKept> {
        (**self).keep(records)
    }

    fn has_room(&mut self) -> bool {
        (**self).has_room()
    }

    fn leads_until(&self) -> Time {
        (**self).leads_until()
    }

    fn leads(&self) -> bool {
        (**self).leads()
    }
}
