//! The Resource Allocation Table: every loan there is.
//!
//! Paper, section 5.3: it "tracks all allocation records". A row is there from before the donor is
//! asked until the donor has it no more, or is gone itself.
//!
//! ```text
//!   Granting --- the donor lends ---> Live --- an end stops, or is gone ---> Ending ---> (no row)
//!      |                                                                       ^
//!      +----- the borrower is gone, or the donor does not answer --------------+
//! ```

use super::rrt::Channel;
use crate::loan::{LoanId, LoanKey};
use crate::name::NodeName;
use crate::wire::Reason;
use rhythm_net::Time;
use std::collections::BTreeMap;

/// How a loan stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The donor is asked.
    Granting(Granting),
    /// Both ends have it.
    Live {
        /// The donor wants it back, and takes it then.
        reclaim_at: Option<Time>,
    },
    /// It is over, but the donor has not said that it has taken it back.
    Ending(Reason),
}

/// What is asked of a donor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granting {
    /// The borrower's number for what it wants.
    pub(super) request: u64,
    /// Who could not, and the donor that is asked now.
    pub(super) tried: Vec<NodeName>,
    /// Until when the donor has to answer.
    pub(super) until: Time,
    /// To be told to the borrower, once.
    pub(super) key: LoanKey,
}

/// A loan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Whose memory it is.
    pub lender: NodeName,
    /// Whose it is to be for a while.
    pub borrower: NodeName,
    /// How much, in bytes.
    pub bytes: u64,
    /// Since when, in seconds since 1970-01-01T00:00:00Z.
    pub since: u64,
    /// How it is used.
    pub channel: Channel,
    /// How it stands.
    pub standing: Standing,
}

impl Loan {
    /// Whether its donor is being asked.
    pub(super) fn granting(&self) -> Option<&Granting> {
        match &self.standing {
            Standing::Granting(granting) => Some(granting),
            _ => None,
        }
    }

    /// Whether it is over.
    pub fn is_ending(&self) -> bool {
        matches!(self.standing, Standing::Ending(_))
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Rat {
    rows: BTreeMap<LoanId, Loan>,
}

impl Rat {
    pub(super) fn insert(&mut self, id: LoanId, loan: Loan) {
        self.rows.insert(id, loan);
    }

    pub(super) fn remove(&mut self, id: LoanId) -> Option<Loan> {
        self.rows.remove(&id)
    }

    /// A loan.
    pub fn get(&self, id: LoanId) -> Option<&Loan> {
        self.rows.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LoanId) -> Option<&mut Loan> {
        self.rows.get_mut(&id)
    }

    /// All loans.
    pub fn rows(&self) -> impl Iterator<Item = (LoanId, &Loan)> {
        self.rows.iter().map(|(id, loan)| (*id, loan))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Those of which it is true.
    pub(super) fn all_where(&self, is: impl Fn(&Loan) -> bool) -> Vec<LoanId> {
        let of = self.rows.iter().filter(|(_, loan)| is(loan));
        of.map(|(id, _)| *id).collect()
    }

    /// Bytes for which a lender is being asked.
    pub(super) fn asked_of(&self, lender: &NodeName) -> u64 {
        let rows = self.rows.values();
        let asked = rows.filter(|loan| loan.granting().is_some() && loan.lender == *lender);
        asked.map(|loan| loan.bytes).sum()
    }
}
