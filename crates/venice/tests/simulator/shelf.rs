//! A model of what lends: a memory, of which each loan has a range of its own.

use rhythm_venice::agent::{Lender, NoRoom};
use rhythm_venice::loan::{LoanId, LoanKey};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// A node's memory, as the world sees it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) size: u64,
    /// Where each loan lies, and how long it is.
    pub(crate) loans: BTreeMap<LoanId, (u64, u64)>,
    /// Keys of the loans that it has had, and every loan that it ever granted.
    pub(crate) keys: BTreeMap<LoanId, LoanKey>,
    /// How many more times it says that there is no room.
    pub(crate) refusals: u64,
    pub(crate) refused: u64,
}

/// It, as the agent sees it.
#[derive(Clone, Debug)]
pub(crate) struct Shelf(pub(crate) Arc<Mutex<Memory>>, pub(crate) SocketAddr);

impl Lender for Shelf {
    fn grant(&mut self, loan: LoanId, bytes: u64, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        let mut memory = self.0.lock().expect("one thread");
        if memory.refusals > 0 {
            memory.refusals -= 1;
            memory.refused += 1;
            return Err(NoRoom);
        }
        // The agent keeps the sum within the size, so there is room behind all that is there.
        let taken: u64 = memory.loans.values().map(|(_, bytes)| bytes).sum();
        assert!(
            taken + bytes <= memory.size,
            "{loan:?}: more is lent than there is"
        );
        let at = memory.loans.values().map(|(at, bytes)| at + bytes).max();
        assert!(bytes > 0, "{loan:?}: a loan of nothing");
        let known = memory.keys.insert(loan, key.clone());
        assert!(known.is_none(), "{loan:?} is granted twice by one donor");
        memory.loans.insert(loan, (at.unwrap_or(0), bytes));
        Ok(self.1)
    }

    fn revoke(&mut self, loan: LoanId) {
        self.0.lock().expect("one thread").loans.remove(&loan);
    }

    fn lent(&self) -> Vec<(LoanId, u64)> {
        let memory = self.0.lock().expect("one thread");
        memory
            .loans
            .iter()
            .map(|(id, (_, bytes))| (*id, *bytes))
            .collect()
    }
}
