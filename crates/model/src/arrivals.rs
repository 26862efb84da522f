//! Requests as they arrive at a worker: a Poisson process, each for a page of the mix.

use crate::settings::Settings;
use fastrand::Rng;
use std::time::Duration;

/// A request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Duration,
    pub(crate) page: usize,
}

/// A worker's requests, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct Arrivals {
    rng: Rng,
    /// Mean seconds between two.
    gap: f64,
    /// How often each page and those before it are asked for, of all.
    shares: Vec<f64>,
    until: Duration,
    /// The next one, unless there is none.
    next: Option<Arrival>,
}

impl Arrivals {
    /// Those of one of the server's workers.
    pub(crate) fn of_worker(settings: &Settings, index: usize) -> Arrivals {
        let all: f64 = settings.pages.iter().sum();
        let mut sum = 0.0;
        let shares = settings.pages.iter().map(|weight| {
            sum += weight / all;
            sum
        });
        // Seeds that are near each other must not give streams that are.
        let mut seeds = Rng::with_seed(settings.seed);
        let seed = (0..=index)
            .map(|_| seeds.u64(..))
            .last()
            .unwrap_or_default();
        let mut arrivals = Arrivals {
            shares: shares.collect(),
            rng: Rng::with_seed(seed),
            gap: settings.workers as f64 / settings.rate,
            until: settings.duration,
            next: None,
        };
        arrivals.next = arrivals.after(Duration::ZERO);
        arrivals
    }

    /// When the next one arrives.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.next.map(|next| next.at)
    }

    /// The next one, if it has arrived by `now`.
    pub(crate) fn take(&mut self, now: Duration) -> Option<Arrival> {
        let arrived = self.next.filter(|next| next.at <= now)?;
        self.next = self.after(arrived.at);
        Some(arrived)
    }

    /// One that arrives behind this time.
    fn after(&mut self, time: Duration) -> Option<Arrival> {
        // Of (0, 1], so its logarithm is finite.
        let chance = 1.0 - self.rng.f64();
        let at = time + Duration::from_secs_f64(-chance.ln() * self.gap);
        let chance = self.rng.f64();
        let page = self.shares.partition_point(|share| *share <= chance);
        // The sum of all shares may be a little less than 1.
        let page = page.min(self.shares.len() - 1);
        (at < self.until).then_some(Arrival { at, page })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Costs;
    use rhythm_cohort::{Formation, Policy};

    fn settings() -> Settings {
        Settings {
            rate: 40_000.0,
            pages: vec![1.0, 3.0],
            workers: 2,
            formation: Formation {
                policy: Policy::Fixed,
                lanes_max: 1,
                delay: Duration::ZERO,
            },
            contexts: 1,
            costs: Costs::MEASURED,
            backend: None,
            duration: Duration::from_secs(10),
            seed: 1,
        }
    }

    #[test]
    fn weights_have_a_sum() {
        let settings = Settings {
            pages: vec![1e308, 1e308],
            ..settings()
        };
        let mistake = settings.check().expect_err("it has none").to_string();
        assert!(mistake.contains("a sum"), "{mistake}");
    }

    #[test]
    fn they_come_at_their_rate_and_by_their_shares() {
        let settings = settings();
        let mut firsts = Vec::new();
        for worker in 0..2 {
            let mut arrivals = Arrivals::of_worker(&settings, worker);
            let all: Vec<Arrival> =
                std::iter::from_fn(|| arrivals.take(settings.duration)).collect();
            assert!(all.is_sorted_by_key(|arrival| arrival.at));
            // 200,000 are expected; the deviation is 447 of them.
            let count = all.len() as f64;
            assert!((count - 200e3).abs() < 5.0 * 447.0, "{count}");
            let second = all.iter().filter(|arrival| arrival.page == 1).count() as f64;
            let deviation = (count * 0.25 * 0.75).sqrt();
            assert!((second - 0.75 * count).abs() < 5.0 * deviation, "{second}");
            firsts.push(all[0]);
        }
        assert_ne!(firsts[0], firsts[1], "workers have streams of their own");
    }
}
