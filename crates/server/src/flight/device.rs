//! Device: the stages of cohorts, over the link to what runs them (paper, section 3.2, *Process*).
//!
//! In: busy cohorts. Out: the same when their stage is done. A cohort that finds no slot on the
//! device waits for one in a queue.

use crate::flight::cohorts::{CohortKey, Cohorts, Phase};
use crate::flight::link::DeviceLink;
use crate::owner::ConnectionOwner;
use rhythm_cohort::ContextId;
use rhythm_engine::cohort::Cohort;
use rhythm_engine::device::{Refusal, Work};
use rhythm_net::{Port, Time};
use std::collections::VecDeque;

/// The device failed for good; the cohort is back in its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceLost;

/// See the module's text.
pub(crate) struct Device {
    link: Box<dyn DeviceLink>,
    /// Cohorts that it had no slot for.
    ready: VecDeque<ContextId>,
    /// Work that is done, its memory kept from call to call.
    done: VecDeque<Work>,
    polled: Vec<Work>,
    /// It has been said that the device is lost, and not yet that it is back.
    is_lost: bool,
}

impl Device {
    /// A device on which nothing is under way.
    pub(crate) fn new(link: Box<dyn DeviceLink>) -> Device {
        Device {
            link,
            ready: VecDeque::new(),
            done: VecDeque::new(),
            polled: Vec::new(),
            is_lost: false,
        }
    }

    /// Gives it a busy context's cohort to run its next stage.
    ///
    /// # Errors
    /// When the device is lost.
    pub(crate) fn submit(
        &mut self,
        port: &mut dyn Port,
        cohorts: &mut Cohorts,
        id: ContextId,
        now: Time,
    ) -> Result<(), DeviceLost> {
        let work = Work {
            service: cohorts.flight(id).epoch().site.service.clone(),
            page: cohorts.pool.key(id).page as usize,
            cohort: cohorts.pool.take(id),
            token: u64::from(id),
        };
        match self.link.submit(port, work, now) {
            Ok(()) => {
                if std::mem::take(&mut self.is_lost) {
                    tracing::info!(device = self.link.name(), "the device is back");
                }
                cohorts.set_phase(id, Phase::Device);
                Ok(())
            }
            Err(Refusal::Busy(work)) => {
                take_back(cohorts, id, work.cohort);
                cohorts.set_phase(id, Phase::Ready);
                self.ready.push_back(id);
                Ok(())
            }
            Err(Refusal::Lost(work, reason)) => {
                if !std::mem::replace(&mut self.is_lost, true) {
                    tracing::error!(device = self.link.name(), reason, "the device is lost");
                }
                take_back(cohorts, id, work.cohort);
                Err(DeviceLost)
            }
        }
    }

    /// Asks the device what it has done; [`Device::next_done`] gives it.
    pub(crate) fn poll(&mut self) {
        self.link.poll(&mut self.polled);
        self.done.extend(self.polled.drain(..));
    }

    /// A cohort whose stage is done, or more than one stage: its key says how far it is.
    pub(crate) fn next_done(&mut self, cohorts: &mut Cohorts) -> Option<ContextId> {
        let work = self.done.pop_front()?;
        let id = work.token as ContextId;
        assert_eq!(cohorts.phase(id), Phase::Device, "it was not given");
        take_back(cohorts, id, work.cohort);
        Some(id)
    }

    /// A cohort that waits for a slot, to be submitted again.
    pub(crate) fn next_ready(&mut self) -> Option<ContextId> {
        self.ready.pop_front()
    }

    /// How many cohorts wait for a slot.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many stages are under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.link.in_flight()
    }

    /// The link, which may have connections of its own.
    pub(crate) fn owner(&mut self) -> &mut dyn ConnectionOwner {
        &mut *self.link
    }

    /// Lets time pass if the link wanted it.
    pub(crate) fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if self.link.wake_at().is_some_and(|at| at <= now) {
            self.link.tick(port, now);
        }
    }

    /// When [`Device::tick`] is due.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.link.wake_at()
    }
}

/// A device gives a cohort back, its stage run or not.
fn take_back(cohorts: &mut Cohorts, id: ContextId, cohort: Box<Cohort>) {
    let key = CohortKey {
        stage: cohort.stage as u32,
        ..cohorts.pool.key(id)
    };
    cohorts.pool.put_back(id, cohort, key);
}
