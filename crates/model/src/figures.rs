//! What a simulation tells.

use crate::settings::Settings;
use rhythm_cohort::LaunchReason;
use serde::Serialize;
use std::time::Duration;

/// What came of a simulation. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Requests that arrived, and were answered.
    pub requests: u64,
    /// Answers a second, up to the last one: less than the rate where workers cannot keep up.
    pub answers_per_s: f64,
    /// How many requests cohorts have.
    pub cohort: Spread,
    /// Shares of the cohorts that were launched because they were full, late, or because nothing
    /// else was to do.
    pub full: f64,
    /// See [`full`](Figures::full).
    pub timeout: f64,
    /// See [`full`](Figures::full).
    pub idle: f64,
    /// From a request's arrival to the launch of its cohort.
    pub waiting_us: Spread,
    /// From when it was read to that launch: what the server counts as waiting.
    pub formation_us: Spread,
    /// From a request's arrival to its answer.
    pub latency_us: Spread,
    /// The share of time for which workers' cores are busy.
    pub utilization: f64,
    /// Their time, by requests.
    pub cpu_us: f64,
}

/// A mean and two quantiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Of all.
    pub mean: f64,
    /// Half are no more than this.
    pub p50: f64,
    /// 99 of 100 are no more than this.
    pub p99: f64,
}

impl Spread {
    fn of(mut all: Vec<f32>) -> Spread {
        let Some(last) = all.len().checked_sub(1) else {
            return Spread::default();
        };
        all.sort_unstable_by(f32::total_cmp);
        let sum: f64 = all.iter().copied().map(f64::from).sum();
        let quantile = |share: f64| f64::from(all[(last as f64 * share).ceil() as usize]);
        Spread {
            mean: sum / all.len() as f64,
            p50: quantile(0.5),
            p99: quantile(0.99),
        }
    }
}

/// What is seen while it runs, of all workers.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    sizes: Vec<f32>,
    reasons: [u64; LaunchReason::ALL.len()],
    waited: Vec<f32>,
    formed: Vec<f32>,
    latencies: Vec<f32>,
    pub(crate) busy: Duration,
    /// When the last worker had answered all.
    last: Duration,
    /// Of all workers.
    time: Duration,
}

fn micros(time: Duration) -> f32 {
    (time.as_secs_f64() * 1e6) as f32
}

impl Seen {
    pub(crate) fn launched(&mut self, reason: LaunchReason, lanes: usize) {
        self.sizes.push(lanes as f32);
        self.reasons[reason as usize] += 1;
    }

    /// A request, from its arrival, and from when it was read, to its launch.
    pub(crate) fn waited(&mut self, since_arrival: Duration, since_read: Duration) {
        self.waited.push(micros(since_arrival));
        self.formed.push(micros(since_read));
    }

    pub(crate) fn answered(&mut self, latency: Duration) {
        self.latencies.push(micros(latency));
    }

    /// A worker is done with all that arrived.
    pub(crate) fn ended(&mut self, now: Duration) {
        self.last = self.last.max(now);
        self.time += now;
    }

    pub(crate) fn figures(self, settings: &Settings) -> Figures {
        let requests = self.latencies.len() as f64;
        let cohorts = self.sizes.len().max(1) as f64;
        let share = |reason: LaunchReason| self.reasons[reason as usize] as f64 / cohorts;
        let seconds = self.last.max(settings.duration).as_secs_f64();
        let time = self.time.as_secs_f64();
        Figures {
            requests: self.latencies.len() as u64,
            answers_per_s: requests / seconds,
            full: share(LaunchReason::Full),
            timeout: share(LaunchReason::Timeout),
            idle: share(LaunchReason::Idle),
            utilization: match time > 0.0 {
                true => self.busy.as_secs_f64() / time,
                false => 0.0,
            },
            cpu_us: self.busy.as_secs_f64() * 1e6 / requests.max(1.0),
            cohort: Spread::of(self.sizes),
            waiting_us: Spread::of(self.waited),
            formation_us: Spread::of(self.formed),
            latency_us: Spread::of(self.latencies),
        }
    }
}
