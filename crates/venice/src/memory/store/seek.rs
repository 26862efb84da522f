//! Donors in place of those that are gone, or want their memory back.

use super::replica::{Leaves, Replica};
use super::state::Store;
use crate::loan::LoanId;
use crate::memory::borrower::Lost;
use crate::memory::supply::Found;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How long after nobody was found the next is sought, and where one wants its memory back.
const AGAIN: Duration = Duration::from_secs(5);
const AGAIN_IN_HASTE: Duration = Duration::from_millis(500);

impl Store {
    /// How many donors are lacking.
    fn lacking(&self) -> usize {
        let stay = |it: &&Replica| it.leaves.is_none() && it.broken.is_none();
        let staying = self.replicas.iter().filter(stay).count();
        self.keeping.copies.saturating_sub(staying)
    }

    /// Why another donor is not found, where one is lacking.
    pub(in crate::memory) fn not_found(&self) -> Option<&String> {
        self.seeking
            .not_found
            .as_ref()
            .filter(|_| self.lacking() > 0)
    }

    /// Has another donor sought where there are too few.
    pub(super) fn seek(&mut self, now: Instant) {
        if self.lacking() == 0 || self.seeking.is_asked || self.seeking.again_at > now {
            return;
        }
        let apart = self.replicas.iter().map(|it| it.borrower.names()).collect();
        self.seeking.is_asked = self.seeking.line.seek(apart);
        self.seeking.again_at = now + AGAIN;
    }

    /// The donor of a loan wants its memory back, if it is one of this store's.
    pub(in crate::memory) fn is_wanted(
        &mut self,
        loan: LoanId,
        within: Duration,
        since: Instant,
    ) -> bool {
        let mut replicas = self.replicas.iter_mut();
        let Some(replica) = replicas.find(|it| it.borrower.loan() == loan) else {
            return false;
        };
        let donor = replica.borrower.donor();
        warn!(%donor, %loan, ?within, "a donor wants its memory back, and takes it then");
        replica.leaves.get_or_insert(Leaves { within, since });
        self.seeking.again_at = since;
        true
    }

    /// Another donor was sought.
    pub(in crate::memory) fn found(&mut self, found: Found, now: Instant) {
        self.seeking.is_asked = false;
        match found {
            Ok((borrower, held)) if self.lacking() > 0 => {
                let (donor, loan) = borrower.names();
                info!(%donor, %loan, "another donor lends, and is filled");
                self.seeking.not_found = None;
                self.join(borrower, held, true, now);
            }
            // It is not needed any more, and given back.
            Ok(_) => {}
            Err(why) => {
                let in_haste = self.replicas.iter().any(|it| it.leaves.is_some());
                let again = if in_haste { AGAIN_IN_HASTE } else { AGAIN };
                self.seeking.again_at = now + again;
                if self.seeking.not_found.as_ref() != Some(&why) {
                    warn!("no other donor is found, and it is tried again: {why}");
                }
                self.seeking.not_found = Some(why);
            }
        }
    }

    /// A loan is over, as who knows says, if it is one of this store's. Where others have
    /// everything, it is done without; else it is used for as long as its donor answers.
    pub(in crate::memory) fn is_broken(&mut self, loan: LoanId, why: &str, now: Instant) -> bool {
        let broken = |it: &&mut Replica| it.borrower.loan() == loan;
        let Some(replica) = self.replicas.iter_mut().find(broken) else {
            return false;
        };
        let number = replica.number;
        warn!(donor = %replica.borrower.donor(), %loan, why, "a loan is over");
        replica.broken = Some(why.to_owned());
        self.seeking.again_at = now;
        if self.replicas.iter().any(Replica::is_sound) {
            // Where one is sound, nothing is lost.
            let _ = self.died(number, Lost::Broken(why.to_owned()), now);
        }
        true
    }

    /// All loans are over soon, as who knows says: used until then, they say why when they are.
    pub(in crate::memory) fn are_over(&mut self, why: &str) {
        for replica in &mut self.replicas {
            replica.broken.get_or_insert_with(|| why.to_owned());
        }
    }
}
