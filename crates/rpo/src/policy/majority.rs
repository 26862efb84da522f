//! The paper's rule (section III-B): after every b arrivals, all threads if the HT-friendly ones
//! have the relative majority among them, else one a core; until the next batch.
//!
//! A tie counts for all threads: only so does the ordering mix, of 48 % HT-friendly requests, have
//! the 51 % of HT-friendly batches of Table VII.

use super::batches::Batches;
use super::{Decision, Event, Policy, Why};
use crate::Setting;
use crate::classifier::{ClassTable, Friendly};
use std::time::Duration;

/// The paper's batch (section IV).
pub(super) const BATCH: u32 = 20;

/// The paper's rule.
#[derive(Clone, Debug)]
pub struct Majority {
    /// By class, whom it is friendly to; None where the table does not say.
    friendly: Vec<Option<Friendly>>,
    batch: u32,
    counts: [u32; 2],
    last: Option<Why>,
    setting: Setting,
    batches: Batches,
}

impl Majority {
    /// With the classes of `table` and the paper's batch of 20.
    #[must_use]
    pub fn new(table: &ClassTable) -> Majority {
        Majority::with_batch(table, BATCH)
    }

    /// With another batch; of none is of one.
    #[must_use]
    pub fn with_batch(table: &ClassTable, batch: u32) -> Majority {
        Majority {
            friendly: table.classes().map(|class| class.friendly).collect(),
            batch: batch.max(1),
            counts: [0; 2],
            last: None,
            setting: Setting::AllThreads,
            batches: Batches::default(),
        }
    }

    fn decide(&mut self) -> Option<Decision> {
        let counts = std::mem::take(&mut self.counts);
        let setting = if counts[0] >= counts[1] {
            Setting::AllThreads
        } else {
            Setting::OnePerCore
        };
        self.batches.batches[setting.index()] += 1;
        for (sum, count) in self.batches.requests[setting.index()]
            .iter_mut()
            .zip(counts)
        {
            *sum += u64::from(count);
        }
        let why = Why::Majority {
            friendly: counts[0],
            batch: counts[0] + counts[1],
        };
        self.last = Some(why.clone());
        let changes = setting != self.setting;
        self.setting = setting;
        changes.then_some(Decision { setting, why })
    }
}

impl Policy for Majority {
    fn on(&mut self, event: &Event, _: Duration) -> Option<Decision> {
        match event {
            Event::Arrived(class) => {
                let friendly = self.friendly.get(usize::from(class.0)).copied().flatten()?;
                self.counts[friendly.index()] += 1;
                (self.counts[0] + self.counts[1] >= self.batch)
                    .then(|| self.decide())
                    .flatten()
            }
            Event::Switched { setting, .. } => {
                self.setting = *setting;
                None
            }
            _ => None,
        }
    }

    fn explain(&self) -> String {
        match &self.last {
            Some(why) => format!("{}: {why}", self.setting),
            None => format!("{}: no batch of {} yet", self.setting, self.batch),
        }
    }

    fn batches(&self) -> Option<&Batches> {
        Some(&self.batches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassId;

    fn table() -> ClassTable {
        let mut table = ClassTable::default();
        table
            .add("light", Some(Friendly::AllThreads))
            .expect("room");
        table
            .add("heavy", Some(Friendly::OnePerCore))
            .expect("room");
        table.add("unknown", None).expect("room");
        table
    }

    fn arrive(policy: &mut Majority, classes: &[u16]) -> Vec<Option<Setting>> {
        let arrived = |class: &u16| Event::Arrived(ClassId(*class));
        classes
            .iter()
            .map(|class| {
                policy
                    .on(&arrived(class), Duration::ZERO)
                    .map(|made| made.setting)
            })
            .collect()
    }

    #[test]
    fn a_batch_decides_for_the_next() {
        let mut policy = Majority::with_batch(&table(), 3);
        assert_eq!(
            arrive(&mut policy, &[1, 2, 2]),
            [None, None, Some(Setting::OnePerCore)]
        );
        // The same again: nothing to switch.
        assert_eq!(arrive(&mut policy, &[2, 2, 2]), [None, None, None]);
        assert_eq!(
            arrive(&mut policy, &[1, 2, 1]),
            [None, None, Some(Setting::AllThreads)]
        );
        assert_eq!(policy.batches.batches, [1, 2]);
        assert_eq!(policy.batches.requests, [[2, 1], [1, 5]]);
        assert!((policy.batches.minority(Setting::OnePerCore) - 1.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn a_tie_is_for_all_threads_and_the_unknown_do_not_vote() {
        let mut policy = Majority::with_batch(&table(), 2);
        assert_eq!(
            arrive(&mut policy, &[2, 2]),
            [None, Some(Setting::OnePerCore)]
        );
        assert_eq!(
            arrive(&mut policy, &[3, 0, 2, 3, 1]),
            [None, None, None, None, Some(Setting::AllThreads)]
        );
    }

    #[test]
    fn what_was_switched_by_others_is_known() {
        let mut policy = Majority::with_batch(&table(), 1);
        let switched = Event::Switched {
            setting: Setting::OnePerCore,
            took: Duration::from_millis(1),
        };
        assert_eq!(policy.on(&switched, Duration::ZERO), None);
        assert_eq!(
            arrive(&mut policy, &[2, 1]),
            [None, Some(Setting::AllThreads)]
        );
    }
}
