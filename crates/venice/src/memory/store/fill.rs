//! A donor that comes later is filled from the others, slot by slot.
//!
//! What leaves meanwhile goes to it as well, so one pass is enough. A page is read where it is,
//! compared with its checksum, and written, unless something else was written there since. So many
//! bytes a second are taken at most, so that who waits for a page does not wait for this; where a
//! donor wants its memory back, as many as there can be.

use super::replica::{Asked, Bytes, Copy, Fill, Replica};
use super::state::Store;
use crate::memory::borrower::Borrower;
use crate::memory::supply::Held;
use std::collections::VecDeque;
use std::time::Instant;
use tracing::info;

/// Pages that are on their way to one donor at a time, and in haste.
const OUTSTANDING: usize = 32;
const OUTSTANDING_IN_HASTE: usize = 256;
/// Slots that are looked at in one turn, at most.
const LOOKS: u32 = 1 << 16;

impl Store {
    /// A donor is there, `later` than the others.
    pub(super) fn join(&mut self, borrower: Borrower, held: Held, later: bool, now: Instant) {
        let taken = self.all();
        let Some(bit) = (0..8).map(|at| 1 << at).find(|bit| taken & bit == 0) else {
            return;
        };
        self.last_replica += 1;
        let fill = Fill {
            next: 0,
            outstanding: 0,
            since: now,
            copied: 0,
        };
        let mut replica = Replica {
            number: self.last_replica,
            bit,
            borrower,
            _held: held,
            asked: VecDeque::new(),
            fill: later.then_some(fill),
            leaves: None,
            broken: None,
            failed: None,
        };
        // These are nowhere for sure: they are everywhere only when they are here, too.
        for (slot, bytes) in &self.in_flight {
            replica.write(*slot, self.places.get(*slot).version, bytes, now);
        }
        self.replicas.push(replica);
    }

    /// Whether a donor is filled now.
    pub(in crate::memory) fn is_filling(&self) -> bool {
        self.replicas.iter().any(|replica| replica.fill.is_some())
    }

    /// Goes on with filling.
    pub(super) fn fill(&mut self, now: Instant) {
        self.budget.refill(self.keeping.refill, now);
        let in_haste = self.replicas.iter().any(|it| it.leaves.is_some());
        for index in 0..self.replicas.len() {
            let Some(mut fill) = self.replicas[index].fill else {
                continue;
            };
            let (bit, to) = (self.replicas[index].bit, self.replicas[index].number);
            let most = match in_haste {
                true => OUTSTANDING_IN_HASTE,
                false => OUTSTANDING,
            };
            for _ in 0..LOOKS {
                if fill.next >= self.places.count() || fill.outstanding >= most {
                    break;
                }
                let slot = fill.next;
                let place = self.places.get(slot);
                let others = place.has & !bit;
                // Who has it already, or gets it with all others, needs no copy.
                if others != 0 && place.has & bit == 0 && !self.in_flight.contains_key(&slot) {
                    if !in_haste && !self.budget.take_page() {
                        break;
                    }
                    let copy = Copy {
                        slot,
                        version: place.version,
                        sum: place.sum,
                        to,
                    };
                    if let Some(from) = self.least_busy(others) {
                        self.replicas[from].read(slot, Asked::Copy(copy), now);
                        fill.outstanding += 1;
                        fill.copied += 1;
                    }
                }
                fill.next += 1;
            }
            let replica = &mut self.replicas[index];
            let is_full = fill.next >= self.places.count() && fill.outstanding == 0;
            replica.fill = (!is_full).then_some(fill);
            if is_full {
                info!(
                    donor = %replica.borrower.donor(),
                    loan = %replica.borrower.loan(),
                    pages = fill.copied,
                    took = ?now.duration_since(fill.since),
                    "a donor has all that the others have"
                );
            }
        }
    }

    /// A page has come that another replica is to have.
    pub(super) fn copied(&mut self, copy: &Copy, bytes: &Bytes, now: Instant) {
        let mut replicas = self.replicas.iter_mut();
        let Some(replica) = replicas.find(|replica| replica.number == copy.to) else {
            return;
        };
        if self.places.get(copy.slot).version == copy.version {
            let (slot, version) = (copy.slot, copy.version);
            replica.put(slot, bytes, Asked::Copied { slot, version }, now);
            self.counts.copied += 1;
        } else if let Some(fill) = &mut replica.fill {
            fill.outstanding -= 1;
        }
    }
}
