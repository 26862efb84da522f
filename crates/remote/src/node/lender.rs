//! A node whose loans the agent of its machine grants.

use super::Node;
use super::works::Command;
use rhythm_venice::agent::{Lender, NoRoom};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::resource::{Kind, Share};
use rhythm_venice::secret::Secret;
use std::net::SocketAddr;

impl Lender for Node {
    fn grant(&mut self, loan: LoanId, share: Share, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        // One whose threads are gone serves nobody.
        if share.kind != Kind::Device || self.workers.is_finished() {
            return Err(NoRoom);
        }
        self.loans.grant(loan, share, Secret::of(&key.0));
        Ok(self.address)
    }

    /// Whoever comes with its key from now on is refused; who is there goes as soon as the node's
    /// threads hear of it, and what it was owed is run elsewhere.
    fn revoke(&mut self, loan: LoanId) {
        if self.loans.revoke(loan) {
            for inbox in self.workers.inboxes() {
                inbox.send(Command::Over(loan));
            }
        }
    }

    fn lent(&self) -> Vec<(LoanId, Share)> {
        self.loans.lent()
    }
}
