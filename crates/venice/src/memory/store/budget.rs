//! How much may be copied now, so that it is so much a second.

use crate::memory::uffd::PAGE;
use std::time::{Duration, Instant};

/// What may be copied at once is what there is in such a time.
const AT_ONCE: Duration = Duration::from_millis(40);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: f64,
    since: Instant,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            bytes: 0.0,
            since: now,
        }
    }

    /// There is more, after a time, but not of a long time at once.
    pub(super) fn refill(&mut self, rate: u64, now: Instant) {
        let rate = rate as f64;
        let more = now.duration_since(self.since).as_secs_f64() * rate;
        let most = (rate * AT_ONCE.as_secs_f64()).max(PAGE as f64);
        self.bytes = (self.bytes + more).min(most);
        self.since = now;
    }

    /// Takes what a page costs, where there is as much.
    pub(super) fn take_page(&mut self) -> bool {
        let is_there = self.bytes >= PAGE as f64;
        if is_there {
            self.bytes -= PAGE as f64;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_much_a_second_is_taken_and_no_more() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let mut taken = 0;
        for millis in (0..=10_000).step_by(10) {
            budget.refill(1 << 20, start + Duration::from_millis(millis));
            while budget.take_page() {
                taken += 1;
            }
        }
        assert!(
            (2555..=2560).contains(&taken),
            "{taken} pages in ten seconds"
        );
        // What was not used for long is not had at once.
        budget.refill(1 << 20, start + Duration::from_secs(100));
        let at_once = (0..).take_while(|_| budget.take_page()).count();
        assert_eq!(at_once, 10);
        // The least is a page.
        budget.refill(1, start + Duration::from_secs(10_000));
        assert!(budget.take_page() && !budget.take_page());
    }
}
