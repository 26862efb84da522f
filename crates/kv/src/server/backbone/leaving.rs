//! How long a node that leaves waits for others to serve what it served, and to have copies.

use rhythm_net::Time;
use std::time::Duration;

/// How long it waits until others serve what it served, where none of them comes further than
/// before with what it is sent. As long as one does, it waits: it may have the only copy.
const STANDS_FOR: Duration = Duration::from_secs(20);
/// How long it waits, when they do, until they have copies of all it has.
const COPIED_WITHIN: Duration = Duration::from_secs(10);

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    /// How often others came further, and when they last did.
    steps: u64,
    moved_at: Time,
    /// Since when others serve what it served.
    handed_over_at: Option<Time>,
}

impl Leaving {
    pub(super) fn new(now: Time) -> Leaving {
        Leaving {
            steps: 0,
            moved_at: now,
            handed_over_at: None,
        }
    }

    /// Whether it has waited for long enough, others having come further so often.
    pub(super) fn is_over(&mut self, steps: u64, has_handed_over: bool, now: Time) -> bool {
        if steps != self.steps {
            (self.steps, self.moved_at) = (steps, now);
        }
        if has_handed_over {
            // If it serves something again, others have as long as at first.
            self.moved_at = now;
            let since = *self.handed_over_at.get_or_insert(now);
            return now.since(since) >= COPIED_WITHIN;
        }
        self.handed_over_at = None;
        now.since(self.moved_at) >= STANDS_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(1_000_000_000 * seconds)
    }

    #[test]
    fn who_has_much_to_send_waits_until_it_is_sent() {
        let mut leaving = Leaving::new(at(0));
        for second in 1..100 {
            assert!(!leaving.is_over(second, false, at(second)), "{second}");
        }
        assert!(!leaving.is_over(100, true, at(100)));
        assert!(!leaving.is_over(100, true, at(109)));
        assert!(leaving.is_over(100, true, at(110)));
    }

    #[test]
    fn who_cannot_send_it_ends() {
        let mut leaving = Leaving::new(at(0));
        assert!(!leaving.is_over(1, false, at(19)));
        assert!(!leaving.is_over(1, false, at(38)));
        assert!(leaving.is_over(1, false, at(39)));
    }

    #[test]
    fn who_serves_something_again_waits_anew() {
        let mut leaving = Leaving::new(at(0));
        for second in 15..24 {
            assert!(!leaving.is_over(0, true, at(second)), "{second}");
        }
        assert!(!leaving.is_over(0, false, at(24)));
        assert!(!leaving.is_over(0, false, at(42)));
        assert!(leaving.is_over(0, false, at(43)));
    }
}
