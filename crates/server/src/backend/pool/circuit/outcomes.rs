//! How calls went of late: counted by who asked and by what was asked, each in a table of fixed
//! size, and by both it is judged whether the backend as a whole fails (see the circuit's text).

use super::super::super::asked::CallNumber;
use super::super::super::awaited::Taken;
use rhythm_net::Time;
use std::time::Duration;

/// So many that ask have to meet failures before those are the backend's.
const ASKERS_MIN: u32 = 3;

/// Slots of a table.
pub(super) const SLOTS: usize = u64::BITS as usize;

/// The slot of one who asks: those who meet in a slot are one.
pub(super) fn slot_of_asker(asker: u64) -> usize {
    // Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4).
    (asker.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.ilog2())) as usize
}

/// The slot of a call: of the first so many each has its own.
pub(super) fn slot_of_call(call: CallNumber) -> usize {
    call.0 % SLOTS
}

/// Calls that failed and that went well, by the slot of who asked or of what was asked.
#[derive(Debug)]
struct Table([[u32; 2]; SLOTS]);

impl Table {
    fn count(&mut self, slot: usize, is_well: bool) {
        let count = &mut self.0[slot][usize::from(is_well)];
        *count = count.saturating_add(1);
    }

    /// Slots of which this holds, a bit each.
    fn slots(&self, holds: impl Fn([u32; 2]) -> bool) -> u64 {
        let all = self.0.iter().enumerate();
        all.fold(0, |slots, (at, counts)| {
            slots | u64::from(holds(*counts)) << at
        })
    }

    /// Slots that more went well of than failed.
    fn well(&self) -> u64 {
        self.slots(|[failed, well]| well > failed)
    }

    /// Slots with more failures than others.
    fn failing(&self) -> u64 {
        self.slots(|[failed, well]| failed > well)
    }

    /// Whether most slots that have any calls are failing.
    fn most_fail(&self) -> bool {
        let seen = self.slots(|counts| counts != [0, 0]);
        2 * self.failing().count_ones() > seen.count_ones()
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
        self.askers.count(slot_of_asker(query.asker), is_well);
        self.calls.count(slot_of_call(query.call.number()), is_well);
    }

    /// How many slots of those who asked have more failures than others.
    pub(super) fn askers_failing(&self) -> u32 {
        self.askers.failing().count_ones()
    }

    /// The slots of calls that mostly fail.
    pub(super) fn calls_failing(&self) -> u64 {
        self.calls.failing()
    }

    /// The slots of calls that mostly go well.
    pub(super) fn calls_well(&self) -> u64 {
        self.calls.well()
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
        self.askers_failing() >= ASKERS_MIN && self.askers.most_fail() && self.calls.most_fail()
    }
}
