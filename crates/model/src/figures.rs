//! What a simulation tells.

use crate::settings::Settings;
use rhythm_cohort::{LaunchReason, Policy};
use serde::Serialize;
use std::time::Duration;

/// So many standard deviations of the work that arrives waiting may grow by, and workers keep up.
const DEVIATIONS_MAX: f64 = 1.5;

/// What came of a simulation. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Requests that arrived, and were answered.
    pub requests: u64,
    /// Answers a second, up to the last one: less than the rate where workers cannot keep up, and
    /// where the last answers take long beside all of the time.
    pub answers_per_s: f64,
    /// Whether workers keep up: where they do not, requests wait the longer the later they come.
    pub keeps_up: bool,
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
        if all.is_empty() {
            return Spread::default();
        }
        all.sort_unstable_by(f32::total_cmp);
        let sum: f64 = all.iter().copied().map(f64::from).sum();
        // The least of them that so many of 100 are no more than.
        let quantile = |of_100: usize| f64::from(all[(all.len() * of_100).div_ceil(100) - 1]);
        Spread {
            mean: sum / all.len() as f64,
            p50: quantile(50),
            p99: quantile(99),
        }
    }
}

/// Some of the requests, and how long they waited together.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    requests: u64,
    time: Duration,
}

impl Waited {
    /// In seconds, each.
    fn mean(self) -> Option<f64> {
        (self.requests > 0).then(|| self.time.as_secs_f64() / self.requests as f64)
    }
}

/// What is seen while it runs, of all workers.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// For how long requests arrive.
    duration: Duration,
    /// Those that arrived in the first and in the last tenth of it.
    early: Waited,
    late: Waited,
    sizes: Vec<f32>,
    reasons: [u64; LaunchReason::ALL.len()],
    waited: Vec<f32>,
    formed: Vec<f32>,
    latencies: Vec<f32>,
    pub(crate) busy: Duration,
    /// When the last worker had answered all.
    last: Duration,
}

fn micros(time: Duration) -> f32 {
    (time.as_secs_f64() * 1e6) as f32
}

impl Seen {
    pub(crate) fn new(duration: Duration) -> Seen {
        Seen {
            duration,
            ..Seen::default()
        }
    }

    pub(crate) fn launched(&mut self, reason: LaunchReason, lanes: usize) {
        self.sizes.push(lanes as f32);
        self.reasons[reason as usize] += 1;
    }

    /// A request that arrived and was read at these times is launched.
    pub(crate) fn waited(&mut self, arrived: Duration, read: Duration, now: Duration) {
        self.waited.push(micros(now - arrived));
        self.formed.push(micros(now - read));
        let tenth = self.duration / 10;
        let among = match arrived {
            _ if arrived < tenth => &mut self.early,
            _ if arrived >= self.duration - tenth => &mut self.late,
            _ => return,
        };
        among.requests += 1;
        among.time += now - arrived;
    }

    pub(crate) fn answered(&mut self, latency: Duration) {
        self.latencies.push(micros(latency));
    }

    /// A worker is done with all that arrived.
    pub(crate) fn ended(&mut self, now: Duration) {
        self.last = self.last.max(now);
    }

    /// Whether requests of the end waited no longer than those of the beginning, or by no more than
    /// is chance.
    fn keeps_up(&self, settings: &Settings) -> bool {
        let (Some(early), Some(late)) = (self.early.mean(), self.late.mean()) else {
            return true;
        };
        // Where it is by chance whether requests wait for a window's end, or for a context that
        // its backend has, that is no growth.
        let window = match settings.formation.policy {
            Policy::Fixed => settings.formation.delay,
            Policy::WorkConserving => Duration::ZERO,
        };
        let away = settings.backend.map_or(0.0, |backend| {
            backend.calls as f64 * backend.latency.as_secs_f64()
        });
        let by_chance = window.as_secs_f64() + away;
        // Of requests that arrive at random, n take a worker's time give or take 1 / sqrt(n) of it:
        // by so much waiting grows where they come just as fast as they are answered.
        let requests = self.waited.len() as f64 / settings.workers as f64;
        let deviation = self.duration.as_secs_f64() / requests.max(1.0).sqrt();
        late - early <= by_chance + DEVIATIONS_MAX * deviation
    }

    pub(crate) fn figures(self, settings: &Settings) -> Figures {
        let requests = self.latencies.len() as f64;
        let cohorts = self.sizes.len().max(1) as f64;
        let share = |reason: LaunchReason| self.reasons[reason as usize] as f64 / cohorts;
        let seconds = self.last.max(settings.duration).as_secs_f64();
        let time = seconds * settings.workers as f64;
        let keeps_up = self.keeps_up(settings);
        Figures {
            requests: self.latencies.len() as u64,
            answers_per_s: requests / seconds,
            full: share(LaunchReason::Full),
            timeout: share(LaunchReason::Timeout),
            idle: share(LaunchReason::Idle),
            keeps_up,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_least_that_so_many_are_no_more_than() {
        let spread = |count: u16| Spread::of((1..=count).map(f32::from).collect());
        let quantiles = |count: u16| (spread(count).p50, spread(count).p99);
        assert_eq!(quantiles(1), (1.0, 1.0));
        assert_eq!(quantiles(2), (1.0, 2.0));
        assert_eq!(quantiles(100), (50.0, 99.0));
        assert_eq!(quantiles(101), (51.0, 100.0));
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
