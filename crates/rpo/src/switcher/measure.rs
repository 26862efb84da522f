//! How long switching takes, measured.

use super::error::SwitchError;
use super::way::Switcher;
use crate::cpus::CpuSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Times of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(Vec<Duration>);

impl Times {
    fn at(&self, hundredths: usize) -> Duration {
        // The nearest rank: the first that so many are no longer than.
        let rank = (self.0.len() * hundredths).div_ceil(100);
        self.0
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }

    /// The one in the middle.
    #[must_use]
    pub fn median(&self) -> Duration {
        self.at(50)
    }

    /// The one that 99 of 100 are no longer than.
    #[must_use]
    pub fn p99(&self) -> Duration {
        self.at(99)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        write!(
            out,
            "{:.0} us, p99 {:.0}",
            micros(self.median()),
            micros(self.p99())
        )
    }
}

/// How long it takes to give a server fewer CPUs, and to give it all again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// To fewer CPUs.
    pub shrink: Times,
    /// To all.
    pub grow: Times,
}

/// Switches to `fewer` and back so many times, a pause after each, and leaves it at all CPUs.
///
/// # Errors
/// When the switcher fails, or it is to end before it is done; it is left at all CPUs if that is
/// possible.
pub fn cost(
    switcher: &mut dyn Switcher,
    fewer: &CpuSet,
    rounds: usize,
    pause: Duration,
    is_ending: &AtomicBool,
) -> Result<Cost, SwitchError> {
    let full = switcher.full().clone();
    let mut cost = Cost::default();
    let result = (0..rounds).try_for_each(|_| {
        if is_ending.load(Ordering::Relaxed) {
            return Err(SwitchError::Unfit("it was interrupted".to_owned()));
        }
        for (cpus, times) in [(fewer, &mut cost.shrink), (&full, &mut cost.grow)] {
            let begin = Instant::now();
            switcher.set(cpus)?;
            times.0.push(begin.elapsed());
            std::thread::sleep(pause);
        }
        Ok(())
    });
    if result.is_err() {
        // What it says of this is no news.
        let _ = switcher.set(&full);
    }
    result?;
    cost.shrink.0.sort_unstable();
    cost.grow.0.sort_unstable();
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switcher::Dry;

    #[test]
    fn it_ends_with_all_cpus() {
        let mut dry = Dry::new("0-3".parse().expect("a list"));
        let fewer = "0-1".parse().expect("a list");
        let goes_on = AtomicBool::new(false);
        let cost = cost(&mut dry, &fewer, 3, Duration::ZERO, &goes_on).expect("nothing can fail");
        assert_eq!((cost.shrink.0.len(), cost.grow.0.len()), (3, 3));
        assert!(cost.shrink.median() <= cost.shrink.p99());
        let all = dry.possible(dry.full());
        assert_eq!(dry.current().expect("a set"), all);
    }

    #[test]
    fn times_are_told_by_their_middle_and_end() {
        let times = Times((1..=200).map(Duration::from_micros).collect());
        assert_eq!(times.to_string(), "100 us, p99 198");
        let times = Times((1..=100).map(Duration::from_micros).collect());
        assert_eq!(times.to_string(), "50 us, p99 99");
        assert_eq!(Times::default().p99(), Duration::ZERO);
    }
}
