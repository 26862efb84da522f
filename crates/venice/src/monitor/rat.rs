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

use super::deadline::Deadline;
use super::wanted::Turn;
use crate::loan::{LoanId, LoanKey};
use crate::name::NodeName;
use crate::resource::{Kind, Share};
use crate::wire::Reason;
use rhythm_net::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
    /// Who was asked before.
    pub(super) tried: Vec<NodeName>,
    /// The borrower's place among those who wait, where nobody has so much.
    pub(super) turn: Turn,
    /// Until when the donor has to answer.
    pub(super) until: Deadline,
    /// To be told to the borrower, once.
    pub(super) key: LoanKey,
}

/// A loan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Whose it is.
    pub lender: NodeName,
    /// Whose it is to be for a while.
    pub borrower: NodeName,
    /// Of what, and how much.
    pub share: Share,
    /// Since when, in seconds since 1970-01-01T00:00:00Z.
    pub since: u64,
    /// How it stands.
    pub standing: Standing,
}

impl Loan {
    /// What is asked of its donor, if it is being asked.
    pub(super) fn granting(&self) -> Option<&Granting> {
        match &self.standing {
            Standing::Granting(granting) => Some(granting),
            _ => None,
        }
    }

    /// Whether both ends have it.
    pub fn is_live(&self) -> bool {
        matches!(self.standing, Standing::Live { .. })
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Rat {
    rows: BTreeMap<LoanId, Loan>,
    by_lender: BTreeMap<NodeName, BTreeSet<LoanId>>,
    by_borrower: BTreeMap<NodeName, BTreeSet<LoanId>>,
    /// Those whose donors are being asked.
    granting: BTreeSet<LoanId>,
    /// How much each is to have back of a kind by those that are over, and that it has not said to
    /// have taken back. It is asked for with each request that waits.
    ending: BTreeMap<Kind, BTreeMap<NodeName, u128>>,
}

impl Rat {
    pub(super) fn insert(&mut self, id: LoanId, loan: Loan) {
        let enlist = |index: &mut BTreeMap<NodeName, BTreeSet<LoanId>>, node: &NodeName| {
            index.entry(node.clone()).or_default().insert(id);
        };
        enlist(&mut self.by_lender, &loan.lender);
        enlist(&mut self.by_borrower, &loan.borrower);
        self.note(id, &loan);
        self.rows.insert(id, loan);
    }

    /// Enlists a loan by how it stands.
    fn note(&mut self, id: LoanId, loan: &Loan) {
        match loan.standing {
            Standing::Granting(_) => {
                self.granting.insert(id);
            }
            Standing::Live { .. } => {}
            Standing::Ending(_) => {
                let lenders = self.ending.entry(loan.share.kind).or_default();
                *lenders.entry(loan.lender.clone()).or_default() += u128::from(loan.share.amount);
            }
        }
    }

    /// Strikes it from there.
    fn forget(&mut self, id: LoanId, loan: &Loan) {
        self.granting.remove(&id);
        if let Standing::Ending(_) = loan.standing
            && let Some(lenders) = self.ending.get_mut(&loan.share.kind)
            && let Some(amount) = lenders.get_mut(&loan.lender)
        {
            *amount -= u128::from(loan.share.amount);
            if *amount == 0 {
                lenders.remove(&loan.lender);
            }
        }
    }

    pub(super) fn remove(&mut self, id: LoanId) -> Option<Loan> {
        let loan = self.rows.remove(&id)?;
        self.forget(id, &loan);
        let strike = |index: &mut BTreeMap<NodeName, BTreeSet<LoanId>>, node: &NodeName| {
            if let Some(loans) = index.get_mut(node) {
                loans.remove(&id);
                if loans.is_empty() {
                    index.remove(node);
                }
            }
        };
        strike(&mut self.by_lender, &loan.lender);
        strike(&mut self.by_borrower, &loan.borrower);
        Some(loan)
    }

    pub(super) fn set(&mut self, id: LoanId, standing: Standing) {
        if let Some(mut loan) = self.rows.remove(&id) {
            self.forget(id, &loan);
            loan.standing = standing;
            self.note(id, &loan);
            self.rows.insert(id, loan);
        }
    }

    /// A loan.
    pub fn get(&self, id: LoanId) -> Option<&Loan> {
        self.rows.get(&id)
    }

    /// All loans.
    pub fn rows(&self) -> impl Iterator<Item = (LoanId, &Loan)> {
        self.rows.iter().map(|(id, loan)| (*id, loan))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Those whose lender it is.
    pub(super) fn lent_by(&self, node: &NodeName) -> impl Iterator<Item = (LoanId, &Loan)> {
        self.of(self.by_lender.get(node))
    }

    /// Those whose borrower it is.
    pub(super) fn borrowed_by(&self, node: &NodeName) -> impl Iterator<Item = (LoanId, &Loan)> {
        self.of(self.by_borrower.get(node))
    }

    /// How many a node lends, and borrows.
    pub(super) fn counts(&self, node: &NodeName) -> (usize, usize) {
        let count =
            |index: &BTreeMap<NodeName, BTreeSet<LoanId>>| index.get(node).map_or(0, BTreeSet::len);
        (count(&self.by_lender), count(&self.by_borrower))
    }

    /// Those whose donors are being asked.
    pub(super) fn granting(&self) -> impl Iterator<Item = (LoanId, &Loan)> {
        self.of(Some(&self.granting))
    }

    /// Nobody listened for a while, until now: donors that would have to answer before `soon` have
    /// as much time more as [`Deadline::excuse`] says.
    pub(super) fn excuse(&mut self, soon: Time, now: Time, later: (Duration, Duration)) {
        for id in &self.granting {
            if let Some(Loan {
                standing: Standing::Granting(granting),
                ..
            }) = self.rows.get_mut(id)
            {
                granting.until.excuse(soon, now, later);
            }
        }
    }

    /// What of a kind nodes lend still, and are to have back.
    pub(super) fn ending(&self, kind: Kind) -> impl Iterator<Item = (&NodeName, u64)> {
        let lenders = self.ending.get(&kind).into_iter().flatten();
        lenders.map(|(name, amount)| (name, u64::try_from(*amount).unwrap_or(u64::MAX)))
    }

    /// How many loans there are between a node and others, either way.
    pub(super) fn between(&self, node: &NodeName) -> BTreeMap<&NodeName, usize> {
        let borrowed = self.borrowed_by(node).map(|(_, loan)| &loan.lender);
        let lent = self.lent_by(node).map(|(_, loan)| &loan.borrower);
        let mut counts: BTreeMap<&NodeName, usize> = BTreeMap::new();
        for other in borrowed.chain(lent) {
            *counts.entry(other).or_default() += 1;
        }
        counts
    }

    /// For how much of a kind a node is being asked.
    pub(super) fn asked_of(&self, lender: &NodeName, kind: Kind) -> u64 {
        let asked = self.granting().map(|(_, loan)| loan);
        let asked = asked.filter(|loan| loan.lender == *lender && loan.share.kind == kind);
        asked.fold(0, |sum, loan| sum.saturating_add(loan.share.amount))
    }

    fn of<'a>(
        &'a self,
        ids: Option<&'a BTreeSet<LoanId>>,
    ) -> impl Iterator<Item = (LoanId, &'a Loan)> {
        let ids = ids.into_iter().flatten();
        ids.filter_map(|id| self.rows.get(id).map(|loan| (*id, loan)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_come_back_is_known_of_each_lender_and_kind() {
        let name = |name: &str| name.parse::<NodeName>().expect("a name");
        let mut rat = Rat::default();
        let loan = |lender: &str, share: Share| Loan {
            lender: name(lender),
            borrower: name("b"),
            share,
            since: 0,
            standing: Standing::Live { reclaim_at: None },
        };
        let most = u64::MAX / 2 + 1;
        let loans = [("x", most), ("x", most), ("x", 5), ("y", 7)];
        for (id, (lender, bytes)) in (1..).zip(loans) {
            rat.insert(LoanId(id), loan(lender, Share::memory(bytes)));
        }
        let known = |rat: &Rat| {
            let all = rat.ending(Kind::Memory);
            let all = all.map(|(name, amount)| (name.to_string(), amount));
            all.collect::<Vec<_>>()
        };
        assert_eq!(known(&rat), []);
        for id in 1..=4 {
            // Told twice, it counts once.
            rat.set(LoanId(id), Standing::Ending(Reason::GivenBack));
            rat.set(LoanId(id), Standing::Ending(Reason::GivenBack));
        }
        let [x, y] = ["x", "y"].map(str::to_owned);
        assert_eq!(known(&rat), [(x.clone(), u64::MAX), (y.clone(), 7)]);
        rat.remove(LoanId(1));
        assert_eq!(known(&rat), [(x, most + 5), (y.clone(), 7)]);
        rat.remove(LoanId(2));
        rat.remove(LoanId(3));
        assert_eq!(known(&rat), [(y, 7)]);
        assert_eq!(rat.ending(Kind::Fft).count(), 0);
    }
}
