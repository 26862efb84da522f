//! A device that is late, busy or lost, around one that is none of these.

use rhythm_engine::cohort::LaneError;
use rhythm_engine::device::conformance::Dice;
use rhythm_engine::device::{Executor, Refusal, Work};
use std::cell::Cell;
use std::rc::Rc;

/// How a device behaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceFaults {
    /// Most that a stage takes, nanoseconds; 0: it is complete at the next poll.
    pub(crate) delay_max: u64,
    /// Stages under way at most; 0: any number.
    pub(crate) slots: usize,
    /// It is lost after so many stages; 0: never.
    pub(crate) lost_after: usize,
}

/// Mistakes planted into the device, to see them found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DeviceSabotage {
    /// None.
    #[default]
    None,
    /// Two lanes of a cohort get each other's answers, once in ten.
    SwapLanes,
    /// One stage in fifty is never completed.
    ForgetCohort,
    /// A byte of a run is changed, once in fifty.
    ChangeByte,
}

/// The wrapper.
pub(crate) struct FaultyDevice {
    inner: Box<dyn Executor>,
    faults: DeviceFaults,
    sabotage: DeviceSabotage,
    dice: Dice,
    clock: Rc<Cell<u64>>,
    /// When what is under way is complete at the earliest.
    due: Rc<Cell<Option<u64>>>,
    /// Submitted, and when complete.
    under_way: Vec<(u64, Work)>,
    submitted: usize,
}

impl FaultyDevice {
    /// Wraps `inner`. `clock` is the world's, `due` is for the world to read.
    pub(crate) fn new(
        inner: Box<dyn Executor>,
        faults: DeviceFaults,
        sabotage: DeviceSabotage,
        dice: Dice,
        clock: Rc<Cell<u64>>,
        due: Rc<Cell<Option<u64>>>,
    ) -> FaultyDevice {
        FaultyDevice {
            inner,
            faults,
            sabotage,
            dice,
            clock,
            due,
            under_way: Vec::new(),
            submitted: 0,
        }
    }

    fn note_due(&self) {
        self.due
            .set(self.under_way.iter().map(|(due, _)| *due).min());
    }

    fn sabotage(&mut self, work: &mut Work) {
        let output = &mut work.cohort.output;
        match self.sabotage {
            DeviceSabotage::SwapLanes if output.lanes.len() > 1 && self.dice.once_in(10) => {
                let lane = self.dice.below(output.lanes.len() - 1);
                output.lanes.swap(lane, lane + 1);
            }
            DeviceSabotage::ChangeByte if output.runs_used > 0 && self.dice.once_in(50) => {
                let at = self.dice.below(output.runs_used);
                output.runs[at] ^= 1;
            }
            _ => {}
        }
    }
}

impl Executor for FaultyDevice {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn submit(&mut self, work: Work) -> Result<(), Refusal> {
        let faults = self.faults;
        if faults.lost_after != 0 && self.submitted >= faults.lost_after {
            return Err(Refusal::Lost(work, "it fell off the bus".to_owned()));
        }
        if faults.slots != 0 && self.under_way.len() >= faults.slots {
            return Err(Refusal::Busy(work));
        }
        self.inner.submit(work)?;
        self.submitted += 1;
        let mut done = Vec::new();
        self.inner.poll(&mut done);
        for mut work in done {
            if self.sabotage == DeviceSabotage::ForgetCohort && self.dice.once_in(50) {
                continue;
            }
            self.sabotage(&mut work);
            let due = match faults.delay_max {
                0 => 0,
                most => self.clock.get() + self.dice.below(most as usize) as u64,
            };
            self.under_way.push((due, work));
        }
        self.note_due();
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        let lost = self.faults.lost_after != 0 && self.submitted >= self.faults.lost_after;
        let now = self.clock.get();
        let mut index = 0;
        while index < self.under_way.len() {
            if self.under_way[index].0 > now {
                index += 1;
                continue;
            }
            let (_, mut work) = self.under_way.swap_remove(index);
            if lost {
                for lane in 0..work.cohort.len() {
                    work.cohort.lanes[lane] = match work.cohort.lanes[lane] {
                        failed @ rhythm_engine::cohort::LaneState::Failed(_) => failed,
                        _ => rhythm_engine::cohort::LaneState::Failed(LaneError::DeviceFailed),
                    };
                }
                work.cohort.queries.clear();
            }
            done.push(work);
        }
        self.note_due();
    }

    fn in_flight(&self) -> usize {
        self.under_way.len()
    }
}
