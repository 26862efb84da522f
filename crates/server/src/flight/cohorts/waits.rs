//! Which cohorts wait for a backend, and how long they do.

use super::Cohorts;
use super::phase::{Phase, Wait};
use rhythm_cohort::{ContextId, ContextState};
use rhythm_net::Time;

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
