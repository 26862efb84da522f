//! Calls that are answered well while most others fail: what fails is those calls' doing, or that
//! of what they need (a table, a path, a disk that is full), and these go on.

use super::super::super::asked::CallNumber;
use super::super::super::awaited::Taken;
use super::outcomes::{Outcomes, slot_of_call};
use rhythm_net::Time;
use std::time::Duration;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Spared {
    /// Their slots.
    calls: u64,
    /// How they went since the circuit was opened.
    outcomes: Outcomes,
}

impl Spared {
    /// None.
    pub(super) fn none() -> Spared {
        Spared {
            calls: 0,
            outcomes: Outcomes::none(Time::ZERO),
        }
    }

    /// Those that are answered well by what is known when a circuit opens.
    pub(super) fn of(outcomes: &Outcomes, halve_at: Time) -> Spared {
        Spared {
            calls: outcomes.calls_well(),
            outcomes: Outcomes::none(halve_at),
        }
    }

    /// Whether a call goes on.
    pub(super) fn has(&self, call: CallNumber) -> bool {
        self.calls & 1 << slot_of_call(call) != 0
    }

    /// Whether there are any.
    pub(super) fn is_any(&self) -> bool {
        self.calls != 0
    }

    /// Counts a query, where it is one of these: they are spared as long as most go well. Whether
    /// it is.
    pub(super) fn count(
        &mut self,
        query: &Taken,
        is_well: bool,
        window: Duration,
        now: Time,
    ) -> bool {
        let is_of_these = self.has(query.call.number());
        if is_of_these {
            self.outcomes.count(query, is_well, window, now);
            self.calls &= !self.outcomes.calls_failing();
        }
        is_of_these
    }
}
