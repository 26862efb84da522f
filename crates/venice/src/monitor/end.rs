//! How loans end: either end stops, or the donor takes back what is its own.

use super::Monitor;
use super::Now;
use super::keeper::Keeper;
use super::rat::Standing;
use crate::loan::LoanId;
use crate::name::NodeName;
use crate::wire::{Message, Reason};
use std::time::Duration;

impl<K: Keeper> Monitor<K> {
    /// A borrower needs a loan no more.
    pub(super) fn given_back(&mut self, node: &NodeName, id: LoanId) {
        let loan = self.rat.get(id);
        if loan.is_some_and(|loan| loan.borrower == *node && loan.is_live()) {
            self.end(id, Reason::GivenBack);
        }
    }

    /// A donor has a loan no more: it was told so, or has taken it back.
    pub(super) fn revoked(&mut self, node: &NodeName, id: LoanId, why: Reason, now: Now) {
        let Some(loan) = self.rat.get(id).filter(|loan| loan.lender == *node) else {
            return;
        };
        match loan.standing {
            Standing::Ending(_) => {
                let share = loan.share;
                self.drop_loan(id);
                self.rrt.give_back(node, share);
                self.ask_again(now);
            }
            Standing::Live { .. } => {
                self.break_for_borrower(id, why);
                self.drop_loan(id);
            }
            // It has taken back what it has not granted yet.
            Standing::Granting(_) => self.not_answered(id, now),
        }
    }

    /// A donor wants a loan back, and takes it after a while.
    pub(super) fn reclaiming(&mut self, node: &NodeName, id: LoanId, within: Duration, now: Now) {
        let loan = self.rat.get(id);
        let Some(loan) = loan.filter(|loan| loan.lender == *node && loan.is_live()) else {
            return;
        };
        let borrower = loan.borrower.clone();
        let reclaim_at = Some(now.at + within);
        self.rat.set(id, Standing::Live { reclaim_at });
        let within_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        self.tell(
            &borrower,
            Message::ReclaimWanted {
                loan: id,
                within_ms,
            },
        );
    }

    /// A loan is over: the donor is told, now or when it is there again; one that is dead has
    /// nothing to give back.
    pub(super) fn end(&mut self, id: LoanId, why: Reason) {
        let Some(loan) = self.rat.get(id) else {
            return;
        };
        let (lender, share) = (loan.lender.clone(), loan.share);
        if loan.is_live() {
            self.count_end(why);
        }
        if self.nodes.get(&lender).is_none() {
            return self.drop_loan(id);
        }
        tracing::debug!(loan = %id, kind = %share.kind, %share, %why, "a loan is over");
        self.rat.set(id, Standing::Ending(why));
        self.tell(&lender, Message::Revoke { loan: id });
    }

    /// Tells a loan's borrower, if it knows of the loan, that it is over.
    pub(super) fn break_for_borrower(&mut self, id: LoanId, why: Reason) {
        let loan = self.rat.get(id).filter(|loan| loan.is_live());
        if let Some(borrower) = loan.map(|loan| loan.borrower.clone()) {
            tracing::warn!(loan = %id, %borrower, %why, "a loan is broken");
            self.count_end(why);
            self.tell(&borrower, Message::Broken { loan: id, why });
        }
    }

    fn count_end(&mut self, why: Reason) {
        *self.figures.ended.entry(why.label()).or_default() += 1;
    }
}
