//! Whether what is known still holds: completions against those expected, summed up to either
//! side (Page's test).

use super::rates::{LEVELS, Sums};

/// What was seen before a change counts so much after it.
pub(super) const FORGET: f64 = 0.2;
/// Deviations a period that are no change, and the sum of those above that is one.
const SLACK: f64 = 1.0;
const ALARM: f64 = 15.0;
/// No second alarm within so many seconds.
const REST: f64 = 30.0;

/// The test.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drift {
    from: Sums,
    above: f64,
    below: f64,
    rests_until: f64,
}

impl Drift {
    pub(super) fn restart(&mut self, from: Sums) {
        self.from = from;
    }

    /// Takes a period at these speeds; whether that was one too many that did not fit.
    pub(super) fn alarmed(&mut self, sums: &Sums, speeds: &[f64; LEVELS], now: f64) -> bool {
        let [seen, expected] = sums.since(&self.from, speeds);
        if expected < 1.0 {
            return false;
        }
        let deviations = ((seen - expected) / expected.sqrt()).clamp(-6.0, 6.0);
        self.above = (self.above + deviations - SLACK).max(0.0);
        self.below = (self.below - deviations - SLACK).max(0.0);
        let alarmed = self.above.max(self.below) > ALARM && now >= self.rests_until;
        if alarmed {
            (self.above, self.below) = (0.0, 0.0);
            self.rests_until = now + REST;
        }
        alarmed
    }
}
