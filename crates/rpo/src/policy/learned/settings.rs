//! How the learned policy learns, and how it has gone.

use std::time::Duration;

/// How it learns. The defaults are good for servers that answer a few requests a second and more.
#[derive(Clone, Debug)]
pub struct LearnedSettings {
    /// What was seen so long ago counts a third.
    pub memory: Duration,
    /// The work offered is the mean of so long.
    pub horizon: Duration,
    /// Nothing is tried with a larger share of the cores busy.
    pub explore_below: f64,
    /// How long something is tried.
    pub explore_for: Duration,
    /// Nothing is tried while the mean response time is above this.
    pub objective: Option<Duration>,
    /// A switch costs no less than this.
    pub switch_cost: Duration,
    /// So many switches' cost must be lost before one is made.
    pub patience: f64,
}

impl Default for LearnedSettings {
    fn default() -> Self {
        LearnedSettings {
            memory: Duration::from_secs(900),
            horizon: Duration::from_secs(2),
            explore_below: 0.8,
            explore_for: Duration::from_secs(2),
            objective: None,
            switch_cost: Duration::from_millis(1),
            patience: 2.0,
        }
    }
}

/// How it has gone so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// Times something was tried.
    pub explorations: u64,
    /// Switches for a gain.
    pub switches: u64,
    /// Decisions taken back because they made it worse.
    pub reverts: u64,
    /// Times that what was known was found to hold no longer.
    pub changes: u64,
}
