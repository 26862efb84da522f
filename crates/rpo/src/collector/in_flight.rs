//! How many requests are under way, as far as arrivals and completions tell.
//!
//! A child of the server that is killed never tells of completions, and records are lost where a
//! ring overflows, so a plain difference of counts would drift for good. Here each request has a
//! cell by its token, and one that is not completed for long is forgotten. Two of one cell count
//! once: with as many cells as there are here that is seldom, and errs by little.

use std::time::Duration;

/// A power of two, well above what servers have under way.
const CELLS: usize = 16 * 1024;
/// Who is not answered after this is not under way any more.
const FORGET: Duration = Duration::from_secs(120);

/// Requests under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Token and time of arrival; token 0 is none.
    cells: Vec<(u64, Duration)>,
    count: usize,
    /// Whether any was ever told of by a token.
    are_told: bool,
    /// When one was last told of without: it is among none of these.
    untold: Option<Duration>,
    /// The cell at which forgetting goes on.
    next: usize,
}

impl Default for InFlight {
    fn default() -> InFlight {
        InFlight {
            cells: vec![(0, Duration::ZERO); CELLS],
            count: 0,
            are_told: false,
            untold: None,
            next: 0,
        }
    }
}

impl InFlight {
    /// A request came.
    pub(crate) fn arrived(&mut self, token: u64, now: Duration) {
        if token == 0 {
            self.untold = Some(now);
            return;
        }
        self.are_told = true;
        let cell = &mut self.cells[place(token)];
        self.count += usize::from(cell.0 == 0);
        *cell = (token, now);
    }

    /// A request was answered.
    pub(crate) fn completed(&mut self, token: u64) {
        let cell = &mut self.cells[place(token)];
        if token != 0 && cell.0 == token {
            cell.0 = 0;
            self.count -= 1;
        }
    }

    /// A request was told of when it was answered: it was under way, and nobody knew.
    pub(crate) fn was_untold(&mut self, now: Duration) {
        self.untold = Some(now);
    }

    /// How many there are; None where that is not known: no arrival was told of with a token yet,
    /// or others were of late without one.
    #[must_use]
    pub(crate) fn count(&self, now: Duration) -> Option<usize> {
        let is_whole = |at: Duration| now.saturating_sub(at) > FORGET;
        (self.are_told && self.untold.is_none_or(is_whole)).then_some(self.count)
    }

    /// Forgets those of a part of the cells that came too long ago; all cells within 64 calls.
    pub(crate) fn forget(&mut self, now: Duration) {
        for _ in 0..CELLS / 64 {
            let cell = &mut self.cells[self.next];
            if cell.0 != 0 && now.saturating_sub(cell.1) > FORGET {
                cell.0 = 0;
                self.count -= 1;
            }
            self.next = (self.next + 1) % CELLS;
        }
    }
}

fn place(token: u64) -> usize {
    (token.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % CELLS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_drift() {
        let second = Duration::from_secs;
        let mut under_way = InFlight::default();
        for token in 1..=100 {
            under_way.arrived(token, second(1));
        }
        let all = under_way.count;
        assert!((95..=100).contains(&all), "{all}");
        // Twice, and one that nobody told of.
        for token in [5, 5, 0, 1_000_000] {
            under_way.completed(token);
        }
        assert_eq!(under_way.count, all - 1);
        under_way.arrived(0, second(1));
        assert_eq!(under_way.count, all - 1);
        // The others' child was killed.
        under_way.arrived(7_000, second(130));
        (0..64).for_each(|_| under_way.forget(second(140)));
        assert_eq!(under_way.count, 1);
        under_way.completed(7_000);
        assert_eq!(under_way.count, 0);
    }

    #[test]
    fn none_under_way_is_not_the_same_as_not_known() {
        let second = Duration::from_secs;
        let mut under_way = InFlight::default();
        assert_eq!(under_way.count(second(1)), None, "nobody told of any");
        under_way.arrived(7, second(1));
        assert_eq!(under_way.count(second(1)), Some(1));
        under_way.completed(7);
        assert_eq!(under_way.count(second(1)), Some(0));
        // Another server tells of its requests when they are answered.
        under_way.was_untold(second(2));
        assert_eq!(under_way.count(second(3)), None);
        assert_eq!(under_way.count(second(200)), Some(0));
        under_way.arrived(0, second(201));
        assert_eq!(under_way.count(second(202)), None);
    }
}
