//! The seam between an agent and what serves what it lends to borrowers.

use crate::loan::{LoanId, LoanKey};
use crate::memory::donor::Donor;
use crate::resource::{Kind, Share};
use std::net::SocketAddr;

/// There is not so much to lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is not so much to lend")]
pub struct NoRoom;

/// Who lends what an agent's machine has. Its calls are answered at once, and what it lends ends
/// with the agent's process.
pub trait Lender: Send {
    /// Lends so much to whoever shows the key, and says where.
    ///
    /// # Errors
    /// There is no room, or nothing of that kind; nothing is lent.
    fn grant(&mut self, loan: LoanId, share: Share, key: &LoanKey) -> Result<SocketAddr, NoRoom>;

    /// Whether borrowers of that kind reach it in TLS, with this node's certificate.
    fn is_sealed(&self, _: Kind) -> bool {
        false
    }

    /// Takes a loan back: from now on nobody uses it. Nothing happens where there is no such loan.
    fn revoke(&mut self, loan: LoanId);

    /// All that is lent, and what is taken back as long as it cannot be lent anew: memory is zeroed
    /// before.
    fn lent(&self) -> Vec<(LoanId, Share)>;
}

/// Several, each of which lends kinds of its own; none lends nothing, as a node that only borrows.
#[derive(Default)]
pub struct Lenders {
    all: Vec<(Vec<Kind>, Box<dyn Lender>)>,
}

impl Lenders {
    /// One more, for these kinds, of which no other is.
    #[must_use]
    pub fn and(mut self, kinds: &[Kind], lender: Box<dyn Lender>) -> Lenders {
        self.all.push((kinds.to_vec(), lender));
        self
    }

    fn of(&self, kind: Kind) -> Option<usize> {
        self.all.iter().position(|(kinds, _)| kinds.contains(&kind))
    }
}

impl std::fmt::Debug for Lenders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds = self.all.iter().map(|(kinds, _)| kinds);
        f.debug_list().entries(kinds).finish()
    }
}

impl Lender for Lenders {
    fn grant(&mut self, loan: LoanId, share: Share, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        let at = self.of(share.kind).ok_or(NoRoom)?;
        self.all[at].1.grant(loan, share, key)
    }

    fn is_sealed(&self, kind: Kind) -> bool {
        let at = self.of(kind);
        at.is_some_and(|at| self.all[at].1.is_sealed(kind))
    }

    fn revoke(&mut self, loan: LoanId) {
        // Whose it is not, does nothing.
        for (_, lender) in &mut self.all {
            lender.revoke(loan);
        }
    }

    fn lent(&self) -> Vec<(LoanId, Share)> {
        let all = self.all.iter();
        all.flat_map(|(_, lender)| lender.lent()).collect()
    }
}

impl Lender for Donor {
    fn grant(&mut self, loan: LoanId, share: Share, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        let at = self.addresses().first().copied().ok_or(NoRoom)?;
        if share.kind != Kind::Memory {
            return Err(NoRoom);
        }
        Donor::grant(self, loan, share.amount, key.clone()).map_err(|_| NoRoom)?;
        Ok(at)
    }

    fn is_sealed(&self, _: Kind) -> bool {
        Donor::is_sealed(self)
    }

    fn revoke(&mut self, loan: LoanId) {
        // Where there is none, there is nothing to be zeroed.
        Donor::revoke(self, loan);
    }

    fn lent(&self) -> Vec<(LoanId, Share)> {
        let all = Donor::lent(self).into_iter();
        let all = all.map(|(loan, bytes, _)| (loan, bytes));
        let all = all.chain(self.zeroing());
        all.map(|(loan, bytes)| (loan, Share::memory(bytes)))
            .collect()
    }
}
