//! A worker: a loop that reads what has arrived, forms cohorts, and executes them, on one core.
//!
//! A turn is as the page server's: what had arrived as it began is read, a full cohort is launched
//! as soon as it is full, and when all is read, those that the policy says. A cohort that asks a
//! backend keeps its context and leaves the core; it comes back in the first turn that begins after
//! its answers are there. A request for which there is no context waits, and those behind it do:
//! the loop reads no more until one is free.

use crate::arrivals::{Arrival, Arrivals};
use crate::figures::Seen;
use crate::settings::{Backend, Costs, Settings};
use rhythm_cohort::{Circumstances, ContextId, Formation, LaunchReason, Pool};
use std::collections::VecDeque;
use std::time::Duration;

/// A request in a cohort.
#[derive(Clone, Copy, Debug)]
struct Lane {
    arrived: Duration,
    read: Duration,
}

/// A cohort that waits for a backend.
#[derive(Clone, Copy, Debug)]
struct Away {
    until: Duration,
    id: ContextId,
    /// Calls that it makes after this one.
    calls: usize,
}

pub(crate) struct Worker {
    formation: Formation,
    costs: Costs,
    backend: Option<Backend>,
    pool: Pool<usize, Vec<Lane>>,
    arrivals: Arrivals,
    /// Of one that was read, and for which there was no context.
    stalled: Option<(Arrival, Duration)>,
    /// In the order in which they come back: all calls take the same time.
    away: VecDeque<Away>,
    now: Duration,
}

impl Worker {
    pub(crate) fn new(settings: &Settings, arrivals: Arrivals) -> Worker {
        Worker {
            formation: settings.formation,
            costs: settings.costs,
            backend: settings.backend,
            pool: Pool::new(settings.contexts, settings.formation.lanes_max, Vec::new),
            arrivals,
            stalled: None,
            away: VecDeque::new(),
            now: Duration::ZERO,
        }
    }

    /// Runs until all that arrived is answered.
    pub(crate) fn run(mut self, seen: &mut Seen) {
        while let Some(due) = self.due() {
            if due > self.now {
                self.now = due;
                self.works(self.costs.wake, seen);
            }
            self.turn(seen);
        }
        seen.ended(self.now);
    }

    /// When there is something to do next.
    fn due(&self) -> Option<Duration> {
        let delay = self.formation.delay;
        let launches = self.pool.forming().map(|id| self.pool.since(id) + delay);
        let arrives = match self.stalled {
            // It goes on when a context comes back.
            Some(_) => None,
            None => self.arrivals.next_at(),
        };
        let back = self.away.front().map(|away| away.until);
        launches.chain(arrives).chain(back).min()
    }

    /// One turn of the loop.
    fn turn(&mut self, seen: &mut Seen) {
        let began = self.now;
        self.works(self.costs.turn, seen);
        while let Some(away) = self.away.front().copied().filter(|it| it.until <= began) {
            self.away.pop_front();
            self.stage(away.id, away.calls, seen);
        }
        self.read(began, seen);
        while let Some((id, reason)) = self.next_launch() {
            self.launch(id, reason, seen);
        }
        // What waited for a context may have one.
        if self.stalled.is_some() {
            self.read(began, seen);
            while let Some((id, reason)) = self.next_launch() {
                self.launch(id, reason, seen);
            }
        }
    }

    /// Reads what had arrived by then.
    fn read(&mut self, began: Duration, seen: &mut Seen) {
        loop {
            let (arrival, read) = match self.stalled.take() {
                Some(stalled) => stalled,
                None => match self.arrivals.take(began) {
                    Some(arrival) => {
                        let read = self.now;
                        self.works(self.costs.read, seen);
                        (arrival, read)
                    }
                    None => return,
                },
            };
            let Some(id) = self.pool.open(arrival.page, self.now, Vec::clear) else {
                self.stalled = Some((arrival, read));
                return;
            };
            let lanes = self.pool.cohort_mut(id);
            lanes.push(Lane {
                arrived: arrival.at,
                read,
            });
            let count = lanes.len();
            if self.pool.filled(id, count) {
                self.launch(id, LaunchReason::Full, seen);
            }
        }
    }

    /// A cohort to be launched at the end of a turn.
    fn next_launch(&self) -> Option<(ContextId, LaunchReason)> {
        self.pool.forming().find_map(|id| {
            let reason = self.formation.decide(Circumstances {
                lanes: self.pool.cohort(id).len(),
                waited: self.now.saturating_sub(self.pool.since(id)),
                // The host's executor is done with a stage when it has been given it.
                idle: true,
                draining: false,
            });
            reason.map(|reason| (id, reason))
        })
    }

    fn launch(&mut self, id: ContextId, reason: LaunchReason, seen: &mut Seen) {
        self.pool.launch(id);
        let lanes = self.pool.cohort(id);
        seen.launched(reason, lanes.len());
        for lane in lanes {
            seen.waited(lane.arrived, lane.read, self.now);
        }
        let calls = self.backend.map_or(0, |backend| backend.calls);
        self.stage(id, calls, seen);
    }

    /// Runs a stage of a cohort that makes so many calls after it.
    fn stage(&mut self, id: ContextId, calls: usize, seen: &mut Seen) {
        self.works(self.costs.launch, seen);
        if let (Some(backend), Some(calls)) = (self.backend, calls.checked_sub(1)) {
            let until = self.now + backend.latency;
            self.away.push_back(Away { until, id, calls });
            return;
        }
        let lanes = self.pool.cohort(id).len();
        for index in 0..lanes {
            self.works(self.costs.answer, seen);
            let arrived = self.pool.cohort(id)[index].arrived;
            seen.answered(self.now - arrived);
        }
        self.pool.release(id);
    }

    /// The core works for so long.
    fn works(&mut self, time: Duration, seen: &mut Seen) {
        self.now += time;
        seen.busy += time;
    }
}
