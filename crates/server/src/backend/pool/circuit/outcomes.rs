//! How calls went of late: counted by who asked and by what was asked, each in a table of fixed
//! size, and by both it is judged whether the backend as a whole fails (see the circuit's text).

use super::super::super::awaited::Taken;
use rhythm_net::Time;
use std::rc::Rc;
use std::time::Duration;

/// So many that ask have to meet failures before those are the backend's.
const ASKERS_MIN: usize = 3;

/// Slots of a table.
const SLOTS: usize = 64;

/// Whose counts these are: those that meet in a slot are one.
pub(super) fn slot_of(whose: u64) -> usize {
    // Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4).
    (whose.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.ilog2())) as usize
}

/// Calls that failed and that went well, by a hash of who asked or of what was asked.
#[derive(Debug)]
struct Table([[u32; 2]; SLOTS]);

impl Table {
    fn count(&mut self, whose: u64, is_well: bool) {
        let count = &mut self.0[slot_of(whose)][usize::from(is_well)];
        *count = count.saturating_add(1);
    }

    /// How many slots have more failures than others, and how many have any calls.
    fn failing(&self) -> [usize; 2] {
        let failing = self.0.iter().filter(|[failed, well]| failed > well);
        let seen = self.0.iter().filter(|counts| **counts != [0, 0]);
        [failing.count(), seen.count()]
    }

    fn halve(&mut self) {
        self.0.iter_mut().flatten().for_each(|count| *count /= 2);
    }
}

/// Outcomes of calls within a window.
#[derive(Debug)]
pub(super) struct Outcomes {
    askers: Table,
    calls: Table,
    halve_at: Time,
}

impl Outcomes {
    /// Nothing yet; counts are halved at this time first.
    pub(super) fn none(halve_at: Time) -> Outcomes {
        Outcomes {
            askers: Table([[0; 2]; SLOTS]),
            calls: Table([[0; 2]; SLOTS]),
            halve_at,
        }
    }

    /// A query went well, or failed.
    pub(super) fn count(&mut self, query: &Taken, is_well: bool, window: Duration, now: Time) {
        if self.halve_at <= now {
            if self.halve_at + window <= now {
                *self = Outcomes::none(now);
            }
            self.askers.halve();
            self.calls.halve();
            self.halve_at = now + window;
        }
        self.askers.count(query.asker, is_well);
        self.calls.count(Rc::as_ptr(&query.call) as u64, is_well);
    }

    /// Slots of those who asked with more failures than others.
    pub(super) fn askers_failing(&self) -> usize {
        self.askers.failing()[0]
    }

    /// Whether the backend as a whole fails.
    pub(super) fn are_bad(&self, failures_min: u32) -> bool {
        let [mut failed, mut well] = [0_u64; 2];
        for counts in &self.calls.0 {
            failed += u64::from(counts[0]);
            well += u64::from(counts[1]);
        }
        if failed < u64::from(failures_min) || failed <= well {
            return false;
        }
        let ([askers, askers_seen], [calls, calls_seen]) =
            (self.askers.failing(), self.calls.failing());
        askers >= ASKERS_MIN && 2 * askers > askers_seen && 2 * calls > calls_seen
    }
}
