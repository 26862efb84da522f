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
use super::super::failure::Cause;
use super::super::wire::Wire;
use super::ConnectionPool;
use super::next::is_suspect;
use rhythm_engine::program::Call;
use rhythm_net::Time;
use std::rc::Rc;
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
}

impl<W: Wire> ConnectionPool<W> {
    /// Refuses what cannot be answered in time.
    pub(super) fn refuse_beyond(&mut self, now: Time) {
        let all = self.options.connections_max.max(1);
        // Where answers come in order, each holds its connection by itself when it is its turn.
        let depth = if W::IN_ORDER { 1 } else { self.depth() };
        let few = all * depth;
        let (pipes, statements, done) = (&self.pipes, &self.statements, &mut self.done);
        // Those of which queries take long now are not waited for by others either.
        let kinds: Vec<(*const Call, usize, usize)> = (self.waiting.of_calls())
            .map(|(call, count)| {
                let is_slow = is_suspect(pipes, call, statements, now);
                (call, usize::from(is_slow), count)
            })
            .collect();
        let mut waiting = [0; 2];
        for (_, kind, count) in &kinds {
            waiting[*kind] += count;
        }
        let most_wait = self.options.timeout / 2;
        let mut left = [usize::MAX; 2];
        for ((answered, waiting), left) in self.overload.0.iter_mut().zip(waiting).zip(&mut left) {
            // Each of so few has its turn with the next answers.
            if waiting <= few {
                *answered = Answered::default();
                continue;
            }
            answered.are_enough |= answered.count >= few;
            if let Some(most) = answered.most(most_wait, now) {
                *left = most.max(few);
            }
        }
        if waiting
            .iter()
            .zip(left)
            .all(|(waiting, left)| *waiting <= left)
        {
            return;
        }
        self.waiting.sift(
            |query| {
                let of_it = |(of, ..): &&(_, _, _)| *of == Rc::as_ptr(&query.call);
                let kind = kinds.iter().find(of_it).map_or(0, |(_, kind, _)| *kind);
                let left = &mut left[kind];
                let fits = *left > 0;
                *left = left.saturating_sub(1);
                fits || query.step > 0 || query.retries > 0
            },
            |query| done.tell(query, Err(Cause::Overload.at(None))),
        );
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
