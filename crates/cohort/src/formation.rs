//! When a cohort in formation is launched (paper, section 3.1, on delaying requests to form
//! cohorts).
//!
//! Waiting lets a cohort grow, and costs the requests already in it time. Two policies are known:
//!
//! - *fixed*, the paper's: a cohort is launched when it is full or its oldest lane has waited for
//!   the delay;
//! - *work-conserving*: besides, it is launched when the event loop has no more input to read and
//!   the device is free. Nothing is gained by waiting then: what arrives while the device works
//!   forms the next cohort, so that cohorts grow with the load and an idle server answers at once.
//!
//! Deciding needs neither clock nor pool: it is a function of what is known about one cohort.

use std::time::Duration;

/// The policies. See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Launch when full, after the delay, or when there is nothing else to do.
    #[default]
    WorkConserving,
    /// Launch when full or after the delay.
    Fixed,
}

/// How cohorts are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formation {
    /// The policy.
    pub policy: Policy,
    /// Lanes of a full cohort.
    pub lanes_max: usize,
    /// The longest that a lane waits for others.
    pub delay: Duration,
}

/// Why a cohort was launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchReason {
    /// It was full.
    Full,
    /// Its oldest lane had waited for the delay.
    Timeout,
    /// Nothing else was to do.
    Idle,
    /// The server finishes what it has, or the cohort's service was replaced.
    Drain,
}

impl LaunchReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [LaunchReason; 4] = [
        LaunchReason::Full,
        LaunchReason::Timeout,
        LaunchReason::Idle,
        LaunchReason::Drain,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            LaunchReason::Full => "full",
            LaunchReason::Timeout => "timeout",
            LaunchReason::Idle => "idle",
            LaunchReason::Drain => "drain",
        }
    }
}

/// What a decision is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// Lanes of the cohort.
    pub lanes: usize,
    /// How long its oldest lane has waited.
    pub waited: Duration,
    /// No more input is at hand, and no stage is under way on the device.
    pub idle: bool,
    /// The server is draining, or the cohort's service was replaced: no other lane will come.
    pub draining: bool,
}

impl Formation {
    /// Whether a cohort is to be launched now, and why. A cohort without lanes never is.
    pub fn decide(&self, now: Circumstances) -> Option<LaunchReason> {
        if now.lanes == 0 {
            None
        } else if now.lanes >= self.lanes_max {
            Some(LaunchReason::Full)
        } else if now.draining {
            Some(LaunchReason::Drain)
        } else if now.waited >= self.delay {
            Some(LaunchReason::Timeout)
        } else if now.idle && self.policy == Policy::WorkConserving {
            Some(LaunchReason::Idle)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATION: Formation = Formation {
        policy: Policy::WorkConserving,
        lanes_max: 4,
        delay: Duration::from_millis(2),
    };

    fn decide(policy: Policy, lanes: usize, waited_us: u64, idle: bool) -> Option<LaunchReason> {
        Formation {
            policy,
            ..FORMATION
        }
        .decide(Circumstances {
            lanes,
            waited: Duration::from_micros(waited_us),
            idle,
            draining: false,
        })
    }

    #[test]
    fn full_or_late_cohorts_go_under_both_policies() {
        for policy in [Policy::WorkConserving, Policy::Fixed] {
            assert_eq!(decide(policy, 4, 0, false), Some(LaunchReason::Full));
            assert_eq!(decide(policy, 3, 1999, false), None);
            assert_eq!(decide(policy, 3, 2000, false), Some(LaunchReason::Timeout));
            assert_eq!(decide(policy, 0, 9000, true), None);
        }
    }

    #[test]
    fn only_the_work_conserving_policy_uses_idleness() {
        assert_eq!(
            decide(Policy::WorkConserving, 1, 0, true),
            Some(LaunchReason::Idle)
        );
        assert_eq!(decide(Policy::Fixed, 1, 0, true), None);
    }

    #[test]
    fn draining_waits_for_nobody() {
        let circumstances = Circumstances {
            lanes: 1,
            draining: true,
            ..Circumstances::default()
        };
        for policy in [Policy::WorkConserving, Policy::Fixed] {
            let formation = Formation {
                policy,
                ..FORMATION
            };
            assert_eq!(formation.decide(circumstances), Some(LaunchReason::Drain));
        }
    }
}
