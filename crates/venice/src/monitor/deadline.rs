//! By when somebody is to be heard, where nobody listens all the time.

use rhythm_net::Time;

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

    /// Nobody listened for a while: where it is over before `soon` it is over at `until`.
    pub(super) fn excuse(&mut self, soon: Time, until: Time) {
        if self.at < soon && self.excuses > 0 {
            self.excuses -= 1;
            self.at = until;
        }
    }
}
