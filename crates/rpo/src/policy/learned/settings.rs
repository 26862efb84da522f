//! How the learned policy learns.

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
