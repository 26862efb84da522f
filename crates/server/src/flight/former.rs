//! Former: which cohort is launched when, and who waits for a context (paper, section 3.1).
//!
//! In: cohorts that take lanes, and the time. Out: cohorts to be launched, each with the reason.

use crate::flight::cohorts::{Cohorts, since_origin};
use rhythm_cohort::{Circumstances, ContextId, Formation, LaunchReason};
use rhythm_net::{ConnectionId, Time};
use std::collections::VecDeque;

/// What else decides about launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    /// The epoch that requests belong to now: others take no more lanes.
    pub(crate) epoch: u32,
    /// No request comes after those that are here.
    pub(crate) draining: bool,
    /// No stage is under way on the device.
    pub(crate) idle: bool,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Former {
    formation: Formation,
    /// Connections that wait for a free context, longest first.
    waiters: VecDeque<ConnectionId>,
}

impl Former {
    /// Nobody waits yet.
    pub(crate) fn new(formation: Formation) -> Former {
        Former {
            formation,
            waiters: VecDeque::new(),
        }
    }

    /// A full cohort to be launched.
    #[inline]
    pub(crate) fn next_full(&self, cohorts: &Cohorts) -> Option<ContextId> {
        cohorts.pool.full().next()
    }

    /// A cohort to be launched now, full ones first, then the oldest.
    pub(crate) fn next_launch(
        &self,
        cohorts: &Cohorts,
        outlook: Outlook,
        now: Time,
    ) -> Option<(ContextId, LaunchReason)> {
        if let Some(id) = self.next_full(cohorts) {
            return Some((id, LaunchReason::Full));
        }
        let pool = &cohorts.pool;
        // Cohorts of stragglers go on when they have their answers.
        let mut new = pool.forming().filter(|&id| pool.key(id).stage == 0);
        new.find_map(|id| {
            let reason = self.formation.decide(Circumstances {
                lanes: pool.cohort(id).len(),
                waited: since_origin(now).saturating_sub(pool.since(id)),
                idle: outlook.idle,
                draining: outlook.draining || pool.key(id).epoch != outlook.epoch,
            });
            reason.map(|reason| (id, reason))
        })
    }

    /// When the oldest cohort that forms is to be launched at the latest.
    pub(crate) fn wake_at(&self, cohorts: &Cohorts) -> Option<Time> {
        let pool = &cohorts.pool;
        (pool.forming().filter(|&id| pool.key(id).stage == 0))
            .map(|id| Time::ZERO + pool.since(id) + self.formation.delay)
            .min()
    }

    /// A connection waits for a context.
    pub(crate) fn wait(&mut self, id: ConnectionId) {
        self.waiters.push_back(id);
    }

    /// How many connections wait, those included that are gone.
    pub(crate) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Forgets connections that are gone if they may be the most of those that wait: as long as no
    /// context is free, nothing else takes them away. `open` connections there are in all.
    pub(crate) fn forget_gone(&mut self, open: usize, is_open: impl Fn(ConnectionId) -> bool) {
        if self.waiters.len() > 2 * open {
            self.waiters.retain(|id| is_open(*id));
        }
    }

    /// The connection that has waited longest; it waits no more.
    pub(crate) fn next_waiter(&mut self) -> Option<ConnectionId> {
        self.waiters.pop_front()
    }

    /// The connection that began to wait last found no context again: it keeps its place before
    /// the others.
    pub(crate) fn first_again(&mut self) {
        debug_assert!(!self.waiters.is_empty());
        self.waiters.rotate_right(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_cohort::Policy;
    use std::time::Duration;

    #[test]
    fn connections_that_are_gone_do_not_pile_up() {
        let mut former = Former::new(Formation {
            policy: Policy::WorkConserving,
            lanes_max: 1,
            delay: Duration::ZERO,
        });
        // One stays; of the others each goes away while it waits.
        let id = |slot| ConnectionId::new(slot, 0);
        for slot in 0..100 {
            former.wait(id(slot));
            former.forget_gone(2, |at| at == id(0) || at == id(slot));
            assert!(former.waiting() <= 4, "{slot}");
        }
        // Those that are there keep their places.
        assert_eq!(former.next_waiter(), Some(id(0)));
    }
}
