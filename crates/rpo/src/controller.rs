//! The controller: events and times go in, decisions come out; it does no I/O and reads no clock.
//!
//! It hands what it hears to a [`Policy`] and keeps the account of what was decided. A decision
//! holds from [`Controller::switched`] on, which whoever switches calls when it is done, and again
//! with the setting in force where it failed.

use crate::policy::{Decision, Event, Load, Outlook, Policy};
use crate::{ClassId, Setting};
use std::time::Duration;

/// Chooses the setting of one server.
pub struct Controller {
    policy: Box<dyn Policy + Send>,
    setting: Setting,
    since: Duration,
    pending: Option<Setting>,
    counts: Counts,
}

/// What a controller has heard and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were answered.
    pub completed: u64,
    /// Decisions for another setting.
    pub decisions: u64,
    /// Switches that were made.
    pub switches: u64,
    /// Time in each setting up to the last switch ([`Setting::index`]).
    pub in_setting: [Duration; 2],
}

impl Controller {
    /// Of a server that is in `setting`.
    #[must_use]
    pub fn new(policy: Box<dyn Policy + Send>, setting: Setting) -> Controller {
        Controller {
            policy,
            setting,
            since: Duration::ZERO,
            pending: None,
            counts: Counts::default(),
        }
    }

    /// A request came.
    pub fn arrived(&mut self, class: ClassId, now: Duration) -> Option<Decision> {
        self.counts.arrived += 1;
        self.tell(&Event::Arrived(class), now)
    }

    /// A request was answered.
    pub fn completed(
        &mut self,
        class: ClassId,
        took: Duration,
        ok: bool,
        now: Duration,
    ) -> Option<Decision> {
        self.counts.completed += 1;
        self.tell(&Event::Completed { class, took, ok }, now)
    }

    /// The number of a class is another one's from now on.
    pub fn replaced(&mut self, class: ClassId, now: Duration) -> Option<Decision> {
        self.tell(&Event::Replaced(class), now)
    }

    /// How busy the server is; a hundred times a second.
    pub fn load(&mut self, load: Load, now: Duration) -> Option<Decision> {
        self.tell(&Event::Load(load), now)
    }

    /// The time of [`Controller::wake_at`] has come.
    pub fn wake(&mut self, now: Duration) -> Option<Decision> {
        self.tell(&Event::Woke, now)
    }

    /// The setting in force is this one, and it took so long until it was.
    pub fn switched(
        &mut self,
        setting: Setting,
        took: Duration,
        now: Duration,
    ) -> Option<Decision> {
        self.pending = None;
        if setting != self.setting {
            self.counts.switches += 1;
            let lasted = now.saturating_sub(self.since);
            self.counts.in_setting[self.setting.index()] += lasted;
            self.since = now;
            self.setting = setting;
        }
        self.tell(&Event::Switched { setting, took }, now)
    }

    /// When it wants to be woken, if it does.
    #[must_use]
    pub fn wake_at(&self) -> Option<Duration> {
        self.policy.wake_at()
    }

    /// The setting in force.
    #[must_use]
    pub fn setting(&self) -> Setting {
        self.setting
    }

    /// What it has heard and done.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// In a line, what it does now and why.
    #[must_use]
    pub fn explain(&self) -> String {
        self.policy.explain()
    }

    /// What the policy expects of the setting in force, where it learns and has learned.
    #[must_use]
    pub fn outlook(&self) -> Option<Outlook> {
        self.policy.outlook()
    }

    fn tell(&mut self, event: &Event, now: Duration) -> Option<Decision> {
        let decision = self.policy.on(event, now)?;
        // What is already on its way is not decided again.
        if decision.setting == self.pending.unwrap_or(self.setting) {
            return None;
        }
        self.pending = Some(decision.setting);
        self.counts.decisions += 1;
        Some(decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Fixed;

    #[test]
    fn a_decision_is_made_once_and_counted_when_it_holds() {
        let policy = Box::new(Fixed::new(Setting::OnePerCore));
        let mut controller = Controller::new(policy, Setting::AllThreads);
        let seconds = Duration::from_secs;
        let decision = controller
            .arrived(ClassId::OTHER, seconds(1))
            .expect("to be as configured");
        assert_eq!(decision.setting, Setting::OnePerCore);
        assert_eq!(
            controller.arrived(ClassId::OTHER, seconds(2)),
            None,
            "under way"
        );
        assert_eq!(controller.setting(), Setting::AllThreads);
        let took = Duration::from_millis(1);
        assert_eq!(
            controller.switched(Setting::OnePerCore, took, seconds(3)),
            None
        );
        assert_eq!(controller.setting(), Setting::OnePerCore);
        let counts = controller.counts();
        assert_eq!(
            (counts.arrived, counts.decisions, counts.switches),
            (2, 1, 1)
        );
        assert_eq!(counts.in_setting, [seconds(3), seconds(0)]);
        // It failed after all: decided again.
        assert!(
            controller
                .switched(Setting::AllThreads, took, seconds(4))
                .is_some()
        );
        assert_eq!(controller.counts().decisions, 2);
    }
}
