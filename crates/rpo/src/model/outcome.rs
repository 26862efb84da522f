//! What a run of the model has shown.

use crate::Setting;
use crate::policy::Batches;
use serde::Serialize;

/// Seconds of a window over which means are compared.
pub(crate) const WINDOW_S: f64 = 300.0;

/// What a run has shown, warm-up left out.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Seconds that were scored.
    pub seconds: f64,
    /// Requests answered.
    pub completed: u64,
    /// Sum of their response times, in seconds.
    pub response_sum: f64,
    /// Requests and their response times by window of five minutes from the beginning of scoring.
    pub windows: Vec<(u64, f64)>,
    /// Busy share of the processors of the setting in force, in the mean.
    pub utilization: f64,
    /// Switches made.
    pub switches: u64,
    /// Share of the time in each setting.
    pub in_setting: [f64; 2],
    /// The most requests in the server at once.
    pub most: usize,
    /// The most at the database at once (its lock's holder and those that wait for it).
    pub most_at_lock: usize,
    /// Whether the server's limit was reached.
    pub unstable: bool,
    /// The batches of the paper's rule.
    pub batches: Option<Batches>,
    /// Each second, where that was asked for.
    pub seconds_seen: Vec<Second>,
}

/// One second of a run, for the figures.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Second {
    /// Requests answered in it.
    pub completed: u64,
    /// Sum of their response times, in seconds.
    pub response_sum: f64,
    /// Requests at the lock at its end.
    pub at_lock: usize,
    /// Processors a core at its end: 1 or 2.
    pub threads: u8,
}

impl Outcome {
    /// Mean response time in milliseconds.
    #[must_use]
    pub fn response_ms(&self) -> f64 {
        if self.completed == 0 {
            0.0
        } else {
            self.response_sum / self.completed as f64 * 1e3
        }
    }

    /// Requests answered a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.completed as f64 / self.seconds
        } else {
            0.0
        }
    }

    pub(super) fn answered(&mut self, after: f64, took: f64) {
        self.completed += 1;
        self.response_sum += took;
        let window = (after / WINDOW_S) as usize;
        if self.windows.len() <= window {
            self.windows.resize(window + 1, (0, 0.0));
        }
        self.windows[window].0 += 1;
        self.windows[window].1 += took;
    }

    pub(super) fn passed(&mut self, seconds: f64, setting: Setting, utilization: f64) {
        self.seconds += seconds;
        self.in_setting[setting.index()] += seconds;
        self.utilization += seconds * utilization;
    }

    pub(super) fn finish(&mut self) {
        if self.seconds > 0.0 {
            self.utilization /= self.seconds;
            self.in_setting = self.in_setting.map(|seconds| seconds / self.seconds);
        }
    }
}
