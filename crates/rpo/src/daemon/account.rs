//! What a controller has decided and done, for people and for figures.

use crate::policy::Decision;
use crate::setting::Setting;
use std::collections::VecDeque;
use std::time::Duration;

/// Decisions that are kept to be told.
const DECISIONS_MAX: usize = 20;

/// What it has done.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// The last decisions: when, and what.
    pub(super) decisions: VecDeque<(Duration, String)>,
    pub(super) decided: u64,
    /// To each setting ([`Setting::index`]).
    pub(super) switches: [u64; 2],
    pub(super) failures: u64,
    /// Times that somebody else had changed what the server has.
    pub(super) disagreements: u64,
    /// Time that switches took.
    pub(super) switching: Duration,
    pub(super) in_setting: [Duration; 2],
}

impl Account {
    pub(super) fn decided(&mut self, decision: &Decision, now: Duration) {
        self.decided += 1;
        if self.decisions.len() >= DECISIONS_MAX {
            self.decisions.pop_front();
        }
        self.decisions.push_back((now, decision.to_string()));
    }

    /// It was switched to this, which took so long.
    pub(super) fn switched(&mut self, setting: Setting, took: Duration) {
        self.switching += took;
        self.switches[setting.index()] += 1;
    }
}
