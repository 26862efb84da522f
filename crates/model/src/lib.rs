//! How cohorts form: requests arrive at random, at a rate; workers read them, form cohorts and
//! execute them, as the page server does, by the pool and the policy that it runs itself
//! ([`rhythm_cohort`]). What comes of it are the sizes of cohorts, how long requests wait, and how
//! busy the workers are, before there is a machine to measure.
//!
//! - [`settings`]: what is simulated, and what each step costs;
//! - `worker`: one worker, an event at a time;
//! - [`figures`]: what is told of it.
//!
//! Workers share nothing on this path, so a server's requests are divided among them at random and
//! each is simulated for itself: a Poisson stream that is divided so gives Poisson streams. Time is
//! the simulation's own; the same settings and seed give the same figures, always.
//!
//! Left out, and so too good or too bad by them: what else runs on the cores, caches, requests
//! that are longer than others, backends that answer some sooner than others, stragglers, limits of
//! memory, and users who wait for one answer before they ask for the next.
#![forbid(unsafe_code)]

mod arrivals;
pub mod figures;
pub mod settings;
mod worker;

pub use figures::Figures;
pub use settings::{Backend, Costs, Mistake, Settings};

/// Simulates a server.
///
/// # Errors
/// The settings make no sense, or describe more requests than are simulated.
pub fn run(settings: &Settings) -> Result<Figures, Mistake> {
    settings.check()?;
    let mut seen = figures::Seen::new(settings.duration);
    for index in 0..settings.workers {
        let arrivals = arrivals::Arrivals::of_worker(settings, index);
        worker::Worker::new(settings, arrivals).run(&mut seen);
    }
    Ok(seen.figures(settings))
}
