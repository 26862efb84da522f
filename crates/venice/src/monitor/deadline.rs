//! By when somebody is to be heard, where nobody listens all the time.

use rhythm_net::Time;
use std::time::Duration;

/// How often somebody is excused at most before it is heard: so many times it may need an answer,
/// to come again, that waits behind something that is kept. More, and who is dead would stay where
/// the monitor waits all the time. For the same reason both together are no longer than one may be.
const EXCUSES: u8 = 2;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    at: Time,
    excuses: u8,
    /// When it is over whatever excuses there are, once there was one.
    latest: Option<Time>,
}

impl Deadline {
    pub(super) fn new(at: Time) -> Deadline {
        let excuses = EXCUSES;
        Deadline {
            at,
            excuses,
            latest: None,
        }
    }

    /// When it is over.
    pub(super) fn at(self) -> Time {
        self.at
    }

    pub(super) fn is_over(self, now: Time) -> bool {
        self.at <= now
    }

    /// It is over then at the latest.
    pub(super) fn hasten(&mut self, at: Time) {
        self.at = self.at.min(at);
    }

    /// Nobody listened for a while, until now: where it is over before `soon`, it is over so much
    /// later than now.
    pub(super) fn excuse(&mut self, soon: Time, now: Time, later: Duration) {
        if self.at < soon && self.excuses > 0 {
            // Its end may lie behind already: nobody has looked.
            let latest = *self.latest.get_or_insert(self.at.max(now) + later);
            self.excuses -= 1;
            self.at = (now + later).min(latest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_excused_again_and_again_has_one_time_more_in_all() {
        let second = |second| Time::ZERO + Duration::from_secs(second);
        let later = Duration::from_secs(5);
        let mut deadline = Deadline::new(second(5));
        deadline.excuse(second(4), second(3), later);
        assert_eq!(deadline.at(), second(5), "it is not near");
        deadline.excuse(second(6), second(4), later);
        assert_eq!(deadline.at(), second(9));
        deadline.excuse(second(10), second(8), later);
        assert_eq!(deadline.at(), second(10), "5 s more than at first");
        deadline.excuse(second(20), second(10), later);
        assert_eq!(deadline.at(), second(10));
        // The wait itself may have been longer than there was time.
        let mut deadline = Deadline::new(second(5));
        deadline.excuse(second(8), second(7), later);
        assert_eq!(deadline.at(), second(12));
    }
}
