//! The seam between an agent and what serves memory to borrowers.

use crate::loan::{LoanId, LoanKey};
use crate::memory::donor::Donor;
use std::net::SocketAddr;

/// There is not so much memory to lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is not so much memory to lend")]
pub struct NoRoom;

/// Who lends an agent's memory. Its calls are answered at once, and what it lends ends with the
/// agent's process.
pub trait Lender: Send {
    /// Lends so many bytes to whoever shows the key, and says where.
    ///
    /// # Errors
    /// There is no room; nothing is lent.
    fn grant(&mut self, loan: LoanId, bytes: u64, key: &LoanKey) -> Result<SocketAddr, NoRoom>;

    /// Whether borrowers reach it in TLS, with this node's certificate.
    fn is_sealed(&self) -> bool {
        false
    }

    /// Takes a loan back: from now on nobody reads or writes it. Nothing happens where there is no
    /// such loan.
    fn revoke(&mut self, loan: LoanId);

    /// All that is lent, with its bytes.
    fn lent(&self) -> Vec<(LoanId, u64)>;
}

/// Lends nothing: of a node that only borrows.
#[derive(Clone, Copy, Debug, Default)]
pub struct LendsNothing;

impl Lender for LendsNothing {
    fn grant(&mut self, _: LoanId, _: u64, _: &LoanKey) -> Result<SocketAddr, NoRoom> {
        Err(NoRoom)
    }

    fn revoke(&mut self, _: LoanId) {}

    fn lent(&self) -> Vec<(LoanId, u64)> {
        Vec::new()
    }
}

impl Lender for Donor {
    fn grant(&mut self, loan: LoanId, bytes: u64, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        let at = self.addresses().first().copied().ok_or(NoRoom)?;
        Donor::grant(self, loan, bytes, key.clone()).map_err(|_| NoRoom)?;
        Ok(at)
    }

    fn is_sealed(&self) -> bool {
        Donor::is_sealed(self)
    }

    fn revoke(&mut self, loan: LoanId) {
        // Where there is none, there is nothing to be zeroed.
        Donor::revoke(self, loan);
    }

    fn lent(&self) -> Vec<(LoanId, u64)> {
        let all = Donor::lent(self).into_iter();
        all.map(|(loan, bytes, _)| (loan, bytes)).collect()
    }
}

impl Lender for Box<dyn Lender> {
    fn grant(&mut self, loan: LoanId, bytes: u64, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        (**self).grant(loan, bytes, key)
    }

    fn is_sealed(&self) -> bool {
        (**self).is_sealed()
    }

    fn revoke(&mut self, loan: LoanId) {
        (**self).revoke(loan);
    }

    fn lent(&self) -> Vec<(LoanId, u64)> {
        (**self).lent()
    }
}
