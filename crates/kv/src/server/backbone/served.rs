//! Which ranges a node serves, for the log: when nodes come and go many ranges move, one after the
//! other, and one line sums that up when they have.

use rhythm_net::Time;
use std::time::Duration;

/// What has not changed for so long is said.
const STAYS: Duration = Duration::from_millis(500);
/// And what goes on changing is said as often.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// What was said last, and what is so now: ranges, a bit each.
#[derive(Debug, Default)]
pub(super) struct Served {
    said: u64,
    said_at: Time,
    now: u64,
    since: Time,
}

/// Ranges that a node serves, after others moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) serves: u64,
    pub(super) took: u64,
    pub(super) gave: u64,
}

impl Served {
    /// It serves these now; what is to be said, if it is time for that.
    pub(super) fn see(&mut self, serves: u64, now: Time) -> Option<Moved> {
        if serves != self.now {
            (self.now, self.since) = (serves, now);
        }
        if serves == self.said {
            self.said_at = now;
            return None;
        }
        let is_due = now.since(self.since) >= STAYS || now.since(self.said_at) >= SAID_EVERY;
        if !is_due {
            return None;
        }
        let before = std::mem::replace(&mut self.said, serves);
        self.said_at = now;
        Some(Moved {
            serves,
            took: serves & !before,
            gave: before & !serves,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_nanos(1_000_000 * milliseconds)
    }

    #[test]
    fn many_that_move_one_after_the_other_are_one_line() {
        let mut served = Served::default();
        let said: Vec<Moved> = (0..64_u64)
            .chain([63; 10])
            .enumerate()
            .filter_map(|(turn, last)| served.see(u64::MAX >> (63 - last), at(100 * turn as u64)))
            .collect();
        let all = Moved {
            serves: u64::MAX,
            took: u64::MAX,
            gave: 0,
        };
        assert_eq!(said, [all]);
        assert_eq!(served.see(0b111, at(8000)), None);
        let moved = Moved {
            serves: 0b111,
            took: 0,
            gave: !0b111,
        };
        assert_eq!(served.see(0b111, at(8500)), Some(moved));
        assert_eq!(served.see(0b111, at(60_000)), None);
        // What does not come to rest is said now and again.
        let moves = (0..300).filter_map(|turn| served.see(turn, at(60_000 + 100 * turn)));
        assert_eq!(moves.count(), 2);
    }
}
