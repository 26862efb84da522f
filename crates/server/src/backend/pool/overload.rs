//! Overload: what waits and cannot be answered in time is refused at once.
//!
//! Where more is asked than the backend can answer, all wait until they are too late, and what it
//! does is of use to nobody. So no more requests wait than were answered of late in half of the
//! time that a query may take (Little, *A Proof for the Queuing Formula L = λW*, 1961): the
//! other half is for their own calls, and for what is not foreseen. Beyond, who comes last in the
//! order in which they are to go is refused (503, to come again). Only first calls of requests are:
//! for those that are further along, work was done already, and they are not many (`waiting.rs`);
//! nor what was sent before.
//!
//! What is counted is answers, while many wait, and nothing follows from how long each took:
//! nobody's slow calls make those of others look as if they were, and what was counted is forgotten
//! when the line is short. As long as nobody was answered nothing is known.
//!
//! Calls that are slow (`statements.rs`) are a line by themselves: others pass them.

use super::super::awaited::Taken;
use rhythm_net::Time;
use std::time::Duration;

/// Answers are counted for at least this part of the time that those who wait may wait.
const COUNTED: u32 = 4;

/// The answers that first calls of one kind have had of late, while many waited.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    /// Since when they are counted: the first of them.
    since: Option<Time>,
    count: usize,
    /// There were as many as are under way at a time.
    are_enough: bool,
}

impl Answered {
    /// How many may wait so long where so many do, if that is known.
    fn most(&mut self, most_wait: Duration, now: Time) -> Option<usize> {
        let since = self.since?;
        let took = now.since(since);
        if took < most_wait / COUNTED || !self.are_enough {
            return None;
        }
        let most = self.count as f64 * most_wait.div_duration_f64(took);
        if took >= 2 * most_wait / COUNTED {
            // What comes now counts more than what was.
            self.since = Some(since + took / 2);
            self.count /= 2;
        }
        Some(most as usize)
    }
}

/// See the module's text: of calls that are not slow, and of those that are.
#[derive(Debug, Default)]
pub(super) struct Overload([Answered; 2]);

impl Overload {
    /// A query was answered.
    pub(super) fn answered(&mut self, query: &Taken, is_slow: bool, now: Time) {
        if query.step == 0 {
            let answered = &mut self.0[usize::from(is_slow)];
            answered.since.get_or_insert(now);
            answered.count += 1;
        }
    }

    /// How many of each kind may wait where so many do, for so long at most; each of so `few` has
    /// its turn with the next answers.
    pub(super) fn left(
        &mut self,
        waiting: [usize; 2],
        few: usize,
        most_wait: Duration,
        now: Time,
    ) -> [usize; 2] {
        let mut left = [usize::MAX; 2];
        for ((answered, waiting), left) in self.0.iter_mut().zip(waiting).zip(&mut left) {
            if waiting <= few {
                *answered = Answered::default();
                continue;
            }
            answered.are_enough |= answered.count >= few;
            if let Some(most) = answered.most(most_wait, now) {
                *left = most.max(few);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_may_wait_as_were_answered_of_late() {
        let ms = Duration::from_millis;
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut answered = Answered::default();
        assert_eq!(answered.most(ms(1000), at(7)), None);
        answered.since = Some(at(10));
        answered.count = 20;
        assert_eq!(answered.most(ms(1000), at(260)), None);
        answered.are_enough = true;
        assert_eq!(answered.most(ms(1000), at(100)), None);
        // Twenty in 250 ms, and none in the next.
        assert_eq!(answered.most(ms(1000), at(260)), Some(80));
        assert_eq!(answered.most(ms(1000), at(510)), Some(40));
        assert_eq!((answered.since, answered.count), (Some(at(260)), 10));
        assert_eq!(answered.most(ms(1000), at(760)), Some(20));
    }
}
