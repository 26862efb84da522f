//! A model of what lends: a memory, of which each loan has a range of its own, and accelerators,
//! which one loan has, or some share.

use rhythm_venice::agent::{Lender, NoRoom};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::resource::{Kind, SHARES, Share};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// What a node has to lend, as the world sees it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// How much of each kind.
    pub(crate) sizes: BTreeMap<Kind, u64>,
    /// Where each loan lies among those of its kind, and what it has.
    pub(crate) loans: BTreeMap<LoanId, (u64, Share)>,
    /// Keys of the loans that it has had, and every loan that it ever granted.
    pub(crate) keys: BTreeMap<LoanId, LoanKey>,
    /// How many more times it says that there is no room.
    pub(crate) refusals: u64,
    pub(crate) refused: u64,
}

impl Memory {
    /// The loans of a kind.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = (u64, u64)> {
        let loans = self.loans.values();
        let loans = loans.filter(move |(_, share)| share.kind == kind);
        loans.map(|(at, share)| (*at, share.amount))
    }

    /// How much of a kind there is, and how much of that is lent.
    pub(crate) fn sums(&self, kind: Kind) -> (u64, u64) {
        let size = self.sizes.get(&kind).copied().unwrap_or(0);
        (size, self.of(kind).map(|(_, amount)| amount).sum())
    }

    /// Nothing that is shared is lent alone, too: sharers have one accelerator at least.
    pub(crate) fn check_sharing(&self, kind: Kind) {
        let (size, _) = self.sums(kind);
        let alone = self
            .of(kind)
            .filter(|(_, amount)| *amount == SHARES)
            .count() as u64;
        let sharers = self.of(kind).any(|(_, amount)| amount < SHARES);
        assert!(
            alone + u64::from(sharers) <= size / SHARES,
            "{kind}: one is lent alone and shared: {self:?}"
        );
    }
}

/// It, as the agent sees it.
#[derive(Clone, Debug)]
pub(crate) struct Shelf(pub(crate) Arc<Mutex<Memory>>, pub(crate) SocketAddr);

impl Lender for Shelf {
    fn grant(&mut self, loan: LoanId, share: Share, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        let mut memory = self.0.lock().expect("one thread");
        if memory.refusals > 0 {
            memory.refusals -= 1;
            memory.refused += 1;
            return Err(NoRoom);
        }
        // The agent keeps the sum within the size, so there is room behind all that is there.
        let (size, taken) = memory.sums(share.kind);
        assert!(
            taken + share.amount <= size,
            "{loan:?}: more is lent than there is"
        );
        let at = memory.of(share.kind).map(|(at, amount)| at + amount).max();
        assert!(share.is_lent(), "{loan:?}: a loan of nothing");
        let known = memory.keys.insert(loan, key.clone());
        assert!(known.is_none(), "{loan:?} is granted twice by one donor");
        memory.loans.insert(loan, (at.unwrap_or(0), share));
        Ok(self.1)
    }

    fn revoke(&mut self, loan: LoanId) {
        self.0.lock().expect("one thread").loans.remove(&loan);
    }

    fn lent(&self) -> Vec<(LoanId, Share)> {
        let memory = self.0.lock().expect("one thread");
        memory
            .loans
            .iter()
            .map(|(id, (_, share))| (*id, *share))
            .collect()
    }
}
