//! Phases: where each cohort is on its way, and how long those wait that wait for a backend.

use super::Cohorts;
use rhythm_cohort::{ContextId, ContextState};
use rhythm_net::Time;
use std::time::Duration;

/// Where a cohort is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It takes lanes, or there is none.
    #[default]
    Forming,
    /// To be given to the device as soon as that has a slot.
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
    fn patience_over(&self, is_needed: bool) -> Time {
        let waited = match is_needed {
            true => Duration::ZERO,
            false => self.since.since(self.asked) / WAITED_SHARE,
        };
        let moving = MOVING * u32::try_from(self.unanswered).unwrap_or(u32::MAX);
        self.since + self.straggler_delay.max(waited).max(moving)
    }
}

impl Cohorts {
    /// Takes note of where a cohort is now.
    pub(crate) fn set_phase(&mut self, id: ContextId, phase: Phase) {
        let waits = |phase| matches!(phase, Phase::Backend(_));
        let before = std::mem::replace(&mut self.flights[id as usize].phase, phase);
        match (waits(before), waits(phase)) {
            (false, true) => {
                self.waiting.push(id);
                // Another may form in its place.
                self.freed = true;
            }
            (true, false) => self.waiting.retain(|&at| at != id),
            (true, true) | (false, false) => {}
        }
    }

    /// Where a cohort is.
    pub(crate) fn phase(&self, id: ContextId) -> Phase {
        self.flights[id as usize].phase
    }

    /// The contexts whose cohorts wait for a backend.
    pub(crate) fn waiting(&self) -> &[ContextId] {
        &self.waiting
    }

    /// When something is to be done about those that wait if no answer comes.
    pub(crate) fn wait_until(&self, idle: bool) -> Option<Time> {
        let waits = self.waiting.iter();
        waits.map(|&id| self.waits_until(id, idle)).min()
    }

    /// When something is to be done about one that waits.
    fn waits_until(&self, id: ContextId, idle: bool) -> Time {
        self.wait(id).deadline.min(self.goes_on_at(id, idle))
    }

    /// When one that waits goes on without its stragglers. Where the device is not `idle`, that is
    /// as soon as it is.
    pub(crate) fn goes_on_at(&self, id: ContextId, idle: bool) -> Time {
        let wait = self.wait(id);
        let may_go = self.pool.state(id) == ContextState::Busy && !wait.stays;
        match idle {
            true => wait.patience_over(may_go && self.are_few_free()),
            false => Time::NEVER,
        }
    }

    fn wait(&self, id: ContextId) -> Wait {
        match self.phase(id) {
            Phase::Backend(wait) => wait,
            phase => unreachable!("it is {phase:?} and waits for a backend"),
        }
    }
}
