//! How often a server is switched at most.
//!
//! Who asks a server for pages, or may write to its collector's socket, has a part in what is
//! decided. What they can make of it is bounded here: from all threads to one a core it goes only
//! when the last switch is so long ago that switching takes no more than a twentieth of the time,
//! and that tasks have come to run where they now may. Back to all threads it goes at once.

use std::time::Duration;

/// After a switch, tasks are moved to where they may run now within tens of milliseconds.
const REST_MIN: Duration = Duration::from_millis(50);
/// So many times as long as a switch takes is rested: there and back are a twentieth of that.
const RESTS: u32 = 40;
/// A switch that took longer (the controller was off its CPU) does not stand for those to come.
const COST_MAX: Duration = Duration::from_secs(1);

/// When it may be switched next.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next: Duration,
    /// What a switch takes: the mean of the last ones.
    cost: Duration,
}

impl Pace {
    /// A switch that took so long was done now.
    pub(super) fn switched(&mut self, now: Duration, took: Duration) {
        let took = took.min(COST_MAX);
        self.cost = match self.cost {
            Duration::ZERO => took,
            mean => (mean * 3 + took) / 4,
        };
        self.next = now + (self.cost * RESTS).max(REST_MIN);
    }

    /// From when on it may leave all threads.
    pub(super) fn next(&self) -> Duration {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_as_long_as_switching_is_dear() {
        let millis = Duration::from_millis;
        let mut pace = Pace::default();
        assert_eq!(pace.next(), Duration::ZERO, "the first one is free");
        pace.switched(millis(10), Duration::from_micros(200));
        assert_eq!(pace.next(), millis(60));
        let mut dear = Pace::default();
        dear.switched(millis(0), millis(100));
        assert_eq!(dear.next(), millis(4_000));
        // One that was slow by chance counts a quarter.
        pace.switched(millis(100), millis(10));
        let rest = pace.next() - millis(100);
        assert!((millis(100)..millis(110)).contains(&rest), "{rest:?}");
    }
}
