//! What names a loan, and what lets a borrower use it.

use std::fmt;

/// Names one loan, among all that a monitor has ever made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoanId(pub u64);

impl fmt::Display for LoanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The secret of one loan: who shows it to the donor is the borrower. It comes from the monitor by
/// way of both agents, and is in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct LoanKey(pub [u8; 32]);

impl LoanKey {
    /// Whether they are the same, in a time that does not tell where they differ.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let both = self.0.iter().zip(&other.0);
        let differ = both.fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl fmt::Debug for LoanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoanKey(..)")
    }
}
