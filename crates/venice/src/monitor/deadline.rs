//! By when somebody is to be heard, where nobody listens all the time.

use rhythm_net::Time;
use std::time::Duration;

/// How often somebody is excused at most before it is heard: so many times it may need an answer,
/// to come again, that waits behind something that is kept. More, and who is dead would stay where
/// the monitor waits all the time.
const EXCUSES: u8 = 2;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    at: Time,
    excuses: u8,
}

impl Deadline {
    pub(super) fn new(at: Time) -> Deadline {
        let excuses = EXCUSES;
        Deadline { at, excuses }
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

    /// Nobody listened for a while, until now: where it is over before `soon`, it is over as much
    /// later as that was, and at least so much later than now.
    pub(super) fn excuse(&mut self, soon: Time, now: Time, (waited, least): (Duration, Duration)) {
        if self.at < soon && self.excuses > 0 {
            self.excuses -= 1;
            self.at = (self.at + waited).max(now + least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_excused_has_what_was_waited_and_a_little_more_and_that_twice() {
        let second = |second| Time::ZERO + Duration::from_secs(second);
        let seconds = Duration::from_secs;
        let excuse = |deadline: &mut Deadline, now: u64, waited: u64| {
            deadline.excuse(second(now + 1), second(now), (seconds(waited), seconds(2)));
            deadline.at()
        };
        let mut deadline = Deadline::new(second(5));
        assert_eq!(excuse(&mut deadline, 3, 1), second(5), "it is not near");
        assert_eq!(excuse(&mut deadline, 5, 1), second(7));
        assert_eq!(excuse(&mut deadline, 7, 1), second(9));
        assert_eq!(excuse(&mut deadline, 9, 1), second(9), "no third time");
        // Nobody could be heard in all of that.
        let mut deadline = Deadline::new(second(5));
        assert_eq!(excuse(&mut deadline, 20, 19), second(24));
    }
}
