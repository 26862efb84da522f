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
//! when the line is short. As long as nobody was answered nothing is known. A backend that has
//! answered many pauses now and then (a database that writes its pages out): what it did a moment
//! before, in a quarter of that time, is taken for what it can do, and for half as much a time-out
//! later.
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

/// What first calls of one kind were answered of, whether many waited or not: the most, which
/// counts half after each time-out.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    since: Time,
    count: u32,
    /// In [`COUNTED`] of the time that queries may wait.
    most: f64,
}

impl Best {
    /// Goes on to now.
    fn pass(&mut self, most_wait: Duration, now: Time) {
        let window = (most_wait / COUNTED).max(Duration::from_nanos(1));
        let passed = now.since(self.since).div_duration_f64(window);
        if passed >= 1.0 {
            // Half after twice the time that queries may wait, which is half a time-out.
            let faded = self.most * (-passed / f64::from(2 * COUNTED)).exp2();
            self.most = faded.max(f64::from(self.count) / passed);
            (self.since, self.count) = (now, 0);
        }
    }

    /// How many may wait for what it did.
    fn most(&self) -> usize {
        (self.most * f64::from(COUNTED)) as usize
    }
}

/// See the module's text: of calls that are not slow, and of those that are.
#[derive(Debug)]
pub(super) struct Overload {
    /// How long queries may wait.
    most_wait: Duration,
    waited: [Answered; 2],
    best: [Best; 2],
}

impl Overload {
    /// Nothing is known yet of a backend whose queries may take so long.
    pub(super) fn new(timeout: Duration) -> Overload {
        Overload {
            most_wait: timeout / 2,
            waited: Default::default(),
            best: Default::default(),
        }
    }

    /// A query was answered.
    pub(super) fn answered(&mut self, query: &Taken, is_slow: bool, now: Time) {
        if query.step == 0 {
            let kind = usize::from(is_slow);
            self.best[kind].pass(self.most_wait, now);
            self.best[kind].count += 1;
            let answered = &mut self.waited[kind];
            answered.since.get_or_insert(now);
            answered.count += 1;
        }
    }

    /// Nobody waits for long: what was counted since some did is forgotten.
    pub(super) fn is_over(&mut self) {
        self.waited = Default::default();
    }

    /// How many of each kind may wait where so many do; each of so `few` has its turn with the next
    /// answers.
    pub(super) fn left(&mut self, waiting: [usize; 2], few: usize, now: Time) -> [usize; 2] {
        let most_wait = self.most_wait;
        let mut left = [usize::MAX; 2];
        let kinds = self.waited.iter_mut().zip(&mut self.best);
        for (((answered, best), waiting), left) in kinds.zip(waiting).zip(&mut left) {
            best.pass(most_wait, now);
            if waiting <= few {
                *answered = Answered::default();
                continue;
            }
            answered.are_enough |= answered.count >= few;
            if let Some(most) = answered.most(most_wait, now) {
                *left = most.max(best.most()).max(few);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_could_do_a_moment_ago_it_can_do() {
        let ms = Duration::from_millis;
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut best = Best::default();
        for now in 0..500 {
            best.pass(ms(1000), at(now));
            best.count += 1;
        }
        best.pass(ms(1000), at(500));
        assert_eq!(best.most(), 1000);
        // It pauses, and answers again.
        best.pass(ms(1000), at(1500));
        assert_eq!(best.most(), 707);
        best.pass(ms(1000), at(2500));
        assert_eq!(best.most(), 500);
        best.count = 300;
        best.pass(ms(1000), at(2750));
        assert_eq!(best.most(), 1200);
    }

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
