//! What is simulated, and what each step costs.

pub use rhythm_cohort::{Formation, Policy};
use std::time::Duration;
use thiserror::Error;

/// Most requests of one simulation: what is kept of each takes some 16 bytes.
pub const REQUESTS_MAX: f64 = 20e6;

/// The longest delay, cost of a step, and call of a backend.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(3600);

/// For how long requests arrive at most: a year.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Most calls of a page.
const CALLS_MAX: usize = 1000;

/// Most workers, as the server has them; most contexts and requests of a cohort, likewise.
const WORKERS_MAX: usize = 1024;
const LANES_MAX: usize = 65_536;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Requests a second, of the whole server, by a Poisson process.
    pub rate: f64,
    /// How often each page is asked for, in relation to the others.
    pub pages: Vec<f64>,
    /// Workers, a core each.
    pub workers: usize,
    /// When cohorts are launched: the server's own.
    pub formation: Formation,
    /// Contexts of a worker: cohorts that form, run or wait for a backend.
    pub contexts: usize,
    /// What a worker's core does.
    pub costs: Costs,
    /// What each page asks, if it asks a backend that keeps it waiting.
    pub backend: Option<Backend>,
    /// For how long requests arrive.
    pub duration: Duration,
    /// What decides when they do.
    pub seed: u64,
}

/// Processor time of a worker's core, for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Being woken, where the loop slept since there was nothing to do.
    pub wake: Duration,
    /// A turn of the loop: asking the system what there is.
    pub turn: Duration,
    /// A launch of a cohort, and each of its returns from a backend.
    pub launch: Duration,
    /// Reading and parsing a request.
    pub read: Duration,
    /// Rendering and sending its answer.
    pub answer: Duration,
}

impl Costs {
    /// What the account summary costs on the machine of docs/results/2026-11-25.md (*Beside the
    /// limit server*): 30.1 us of CPU for a request that comes alone, 6.0 us for each of 64. A
    /// cohort of one takes 850 ns more than one of 256 takes for each of its requests
    /// (docs/results/2026-11-22-cohorts.md, *Steps made once*). A turn without sleep is taken to
    /// cost 1 us, and half of what is a request's own to be reading: neither was measured alone.
    pub const MEASURED: Costs = Costs {
        wake: Duration::from_nanos(22_300),
        turn: Duration::from_nanos(1_000),
        launch: Duration::from_nanos(850),
        read: Duration::from_nanos(2_950),
        answer: Duration::from_nanos(2_950),
    };

    /// None at all: for what waiting alone costs.
    pub const NONE: Costs = Costs {
        wake: Duration::ZERO,
        turn: Duration::ZERO,
        launch: Duration::ZERO,
        read: Duration::ZERO,
        answer: Duration::ZERO,
    };
}

/// A backend that all pages ask, in turn: each call is answered after the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// How many calls a page makes, one after the other.
    pub calls: usize,
    /// How long each takes.
    pub latency: Duration,
}

/// What of the settings makes no sense.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Mistake {
    /// The rate is not a number above 0.
    #[error("requests arrive at a rate above 0, not {0}")]
    Rate(f64),
    /// There is no page, or one that is asked for less often than never.
    #[error("each page has a weight above 0, and there is at least one; they have a sum")]
    Pages,
    /// A number is none that a server can have.
    #[error("there are 1 to {most} {what}, not {given}")]
    Number {
        /// Of what.
        what: &'static str,
        /// The most that there may be.
        most: usize,
        /// What was said.
        given: usize,
    },
    /// A time is longer than anything that is simulated.
    #[error("no delay, cost or call of a backend takes longer than {TIME_MAX:?}")]
    Time,
    /// They arrive for longer than can be counted.
    #[error("requests arrive for {DURATION_MAX:?} at most: at that rate, fewer of them")]
    Duration,
    /// No request arrives, or too many.
    #[error("{0:.0} requests would be simulated, and 1 to {REQUESTS_MAX:.0} can be")]
    Requests(f64),
}

impl Settings {
    /// Whether it can be simulated.
    ///
    /// # Errors
    /// What makes no sense.
    pub fn check(&self) -> Result<(), Mistake> {
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return Err(Mistake::Rate(self.rate));
        }
        let is_weight = |weight: &f64| weight.is_finite() && *weight > 0.0;
        // Of a sum without end each is no part.
        let is_sum = self.pages.iter().sum::<f64>().is_finite();
        if self.pages.is_empty() || !self.pages.iter().all(is_weight) || !is_sum {
            return Err(Mistake::Pages);
        }
        let numbers = [
            ("workers", WORKERS_MAX, self.workers),
            ("contexts", LANES_MAX, self.contexts),
            ("requests in a cohort", LANES_MAX, self.formation.lanes_max),
            ("calls", CALLS_MAX, self.backend.map_or(1, |it| it.calls)),
        ];
        for (what, most, given) in numbers {
            if !(1..=most).contains(&given) {
                return Err(Mistake::Number { what, most, given });
            }
        }
        let costs = self.costs;
        let latency = self.backend.map_or(Duration::ZERO, |it| it.latency);
        let times = [
            costs.wake,
            costs.turn,
            costs.launch,
            costs.read,
            costs.answer,
        ];
        let mut times = times.iter().chain([&latency, &self.formation.delay]);
        if times.any(|time| *time > TIME_MAX) {
            return Err(Mistake::Time);
        }
        if self.duration > DURATION_MAX {
            return Err(Mistake::Duration);
        }
        let requests = self.rate * self.duration.as_secs_f64();
        match (1.0..=REQUESTS_MAX).contains(&requests) {
            true => Ok(()),
            false => Err(Mistake::Requests(requests)),
        }
    }
}
