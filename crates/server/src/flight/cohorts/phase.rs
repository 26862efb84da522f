//! Phases: where a cohort is on its way, and how it waits for a backend.

use rhythm_net::Time;
use std::time::Duration;

/// Where a cohort is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It takes lanes, or there is none.
    #[default]
    Forming,
    /// To be given to the device as soon as that has a slot, or its page its turn.
    Ready,
    /// A device has it.
    Device,
    /// It waits for memory, to run its stage again for lanes that found none, or to ask its
    /// backend.
    Short,
    /// It waits for a backend.
    Backend(Wait),
}

/// Lanes wait for each other again for what they have waited, divided by this.
const WAITED_SHARE: u32 = 8;

/// And for so long for each that would be moved: a small part of it is what that costs.
const MOVING: Duration = Duration::from_micros(2);

/// How a cohort waits for its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// How many of its queries are not answered.
    pub(crate) unanswered: usize,
    /// When its queries were handed over; the last of them, where there are stragglers of several
    /// cohorts.
    pub(crate) asked: Time,
    /// When it began to wait, or was last looked at for stragglers.
    pub(crate) since: Time,
    /// The earliest deadline of its queries.
    pub(crate) deadline: Time,
    /// How long its lanes wait for each other.
    pub(crate) straggler_delay: Duration,
    /// Its context was needed, and it had nowhere to go.
    pub(crate) stays: bool,
}

impl Wait {
    /// When those that have their answers go on without the others: after the delay, and where they
    /// have waited long already, or would have many moved, after a share of that, so that those are
    /// not moved for each of the others that is answered. How long they have waited is of no matter
    /// where its context is needed.
    pub(super) fn patience_over(&self, is_needed: bool) -> Time {
        let waited = match is_needed {
            true => Duration::ZERO,
            false => self.since.since(self.asked) / WAITED_SHARE,
        };
        let moving = MOVING * u32::try_from(self.unanswered).unwrap_or(u32::MAX);
        self.since + self.straggler_delay.max(waited).max(moving)
    }
}
