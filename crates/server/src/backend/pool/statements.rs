//! What is known of each call that asks: whether its queries take long.
//!
//! A call is *slow* that takes many times as long as the others: the queries of such calls hold
//! some of the connections and no more (`next.rs`), as they would soon have them all. Queries that
//! are not answered in time count with the time that was given to them; of a call that is not slow,
//! or of which nothing is known yet, each query counts that has taken as long. What takes long for
//! one who asks, again and again, counts once: it is his doing, and others' queries of the same
//! call are not to be held back for it.
//!
//! What took long says that of its own time only: pages that hung once, and that nobody asks for
//! any more, are none of the others. What was quick stays: the backend can be so, however long
//! nobody has asked for it. And where a call that took long was answered promptly several times
//! since, and none of its queries hangs, what was before is forgotten.

use super::super::asked::{Asked, CallNumber};
use super::super::awaited::Taken;
use rhythm_engine::program::Call;
use rhythm_net::Time;
use std::time::Duration;

/// So many calls are remembered though no query of them is under way, more than most sites have of
/// one backend; beyond, the one that was asked longest ago is forgotten for another.
const CALLS_KEPT: usize = 256;

/// A call is slow that takes so many times as long as the others.
const SLOW: u32 = 8;

/// And at least this long: less costs those that wait little.
const SLOW_MIN: Duration = Duration::from_millis(50);

/// What was measured counts half after this time.
const HALVED_AFTER: Duration = Duration::from_secs(1);

/// What took long does not count for others after this time: a thirty-second would be left of its
/// weight. With usual time-outs a call that hangs is measured several times meanwhile.
const PAST_AFTER: Duration = HALVED_AFTER.saturating_mul(5);

/// So many queries of a slow call that were answered promptly, one after the other, say that it is
/// so no more.
const QUICK_AGAIN: u32 = 8;

/// Which calls are slow is looked at no more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long queries took of late.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    sum: Duration,
    count: u32,
    /// When it was halved last.
    halved: Time,
    /// When the last of them was measured.
    last: Time,
}

impl Took {
    fn add(&mut self, took: Duration, now: Time) {
        let halvings = now.since(self.halved).as_nanos() / HALVED_AFTER.as_nanos();
        if halvings > 0 {
            self.halved = now;
            // The mean stays, if it is not too old.
            let left = (u64::from(self.count) >> halvings.min(63)) as u32;
            self.sum = self.mean().unwrap_or_default() * left;
            self.count = left;
        }
        self.last = now;
        self.sum = self.sum.saturating_add(took);
        self.count = self.count.saturating_add(1);
    }

    fn mean(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.sum / self.count)
    }
}

/// Taking so long is slow where others take this long.
fn slow_beside(others: Duration) -> Duration {
    others.saturating_mul(SLOW).max(SLOW_MIN)
}

/// A call that asks.
#[derive(Debug)]
struct Statement {
    call: Asked,
    /// When it was asked last, as a number that grows.
    asked: u64,
    took: Took,
    /// What was measured since one took long, and when that was.
    quick: Took,
    long_at: Time,
    was_answered: bool,
    /// Whose query took long last.
    long_of: Option<u64>,
    is_slow: bool,
    /// That is known by queries of this one alone.
    slow_of: Option<u64>,
    /// A query of it is slow that has taken so long.
    patience: Duration,
}

impl Statement {
    /// A query took long.
    fn was_long(&mut self, now: Time) {
        self.quick = Took::default();
        self.long_at = now;
    }

    /// Forgets that it took long, if it is over: what left when the last was over would have shown
    /// by now.
    fn recover(&mut self, now: Time) {
        let shown = self.long_at + self.patience.saturating_mul(2);
        if self.is_slow && self.quick.count >= QUICK_AGAIN && shown <= now {
            self.took = self.quick;
        }
    }

    /// Of one who asks a query took long. Whether the one before was of another.
    fn is_of_another(&mut self, asker: u64) -> bool {
        let before = self.long_of.replace(asker);
        let is_of_another = before.is_some_and(|before| before != asker);
        self.slow_of = self.slow_of.filter(|_| !is_of_another);
        is_of_another
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Statements {
    /// Those that asked of late, by their numbers.
    known: Vec<Option<Statement>>,
    asked_last: u64,
    looked: Time,
}

impl Statements {
    /// Nothing is known yet.
    pub(super) fn new() -> Statements {
        Statements {
            known: Vec::new(),
            asked_last: 0,
            looked: Time::ZERO,
        }
    }

    /// The call that asks, to be shared by its queries.
    pub(super) fn share(&mut self, call: &Call) -> Asked {
        self.asked_last += 1;
        let asked = self.asked_last;
        let mut known = self.known.iter_mut().flatten();
        if let Some(known) = known.find(|known| *known.call == *call) {
            known.asked = asked;
            return known.call.clone();
        }
        if self.known.iter().flatten().count() >= CALLS_KEPT {
            // One of a page that a reload has replaced, most often.
            let idle = self
                .known
                .iter_mut()
                .filter(|place| (place.as_ref()).is_some_and(|known| !known.call.is_shared()));
            let asked = |place: &&mut Option<Statement>| place.as_ref().map(|known| known.asked);
            if let Some(oldest) = idle.min_by_key(asked) {
                *oldest = None;
            }
        }
        let free = self.known.iter().position(Option::is_none);
        let number = free.unwrap_or(self.known.len());
        let call = Asked::new(call.clone(), CallNumber(number));
        if free.is_none() {
            self.known.push(None);
        }
        self.known[number] = Some(Statement {
            call: call.clone(),
            asked,
            took: Took::default(),
            quick: Took::default(),
            long_at: Time::ZERO,
            was_answered: false,
            long_of: None,
            is_slow: false,
            slow_of: None,
            patience: Duration::MAX,
        });
        self.looked = Time::ZERO;
        call
    }

    fn of(&self, call: CallNumber) -> &Statement {
        let known = self.known[call.0].as_ref();
        known.expect("a call of which a query is under way is known")
    }

    fn of_mut(&mut self, call: CallNumber) -> &mut Statement {
        let known = self.known[call.0].as_mut();
        known.expect("a call of which a query is under way is known")
    }

    /// A query was answered, for which a pipe was held so long. Whether its call is slow.
    pub(super) fn answered(&mut self, query: &Taken, took: Duration, now: Time) -> bool {
        let known = self.of_mut(query.call.number());
        known.was_answered = true;
        let is_quick = took < known.patience;
        match is_quick {
            true => known.quick.add(took, now),
            false => known.was_long(now),
        }
        if is_quick || known.is_of_another(query.asker) {
            known.took.add(took, now);
        }
        known.is_slow
    }

    /// A query was not answered in time, for which a pipe was held so long. What had waited until
    /// shortly before its deadline says nothing of its call.
    pub(super) fn was_late(&mut self, query: &Taken, took: Duration, now: Time) {
        let known = self.of_mut(query.call.number());
        if known.patience < Duration::MAX && took < known.patience {
            return;
        }
        known.was_long(now);
        if known.is_of_another(query.asker) {
            known.took.add(took, now);
        }
    }

    /// Queries of this call hold too many pipes, one for so long: what was measured before is past.
    /// `of_one`: who asks them all, if one does.
    pub(super) fn holds_too_much(
        &mut self,
        call: CallNumber,
        of_one: Option<u64>,
        for_now: Duration,
        now: Time,
    ) {
        let known = self.of_mut(call);
        known.was_long(now);
        let before = match known.is_slow {
            true => known.slow_of,
            false => known.long_of.or(of_one),
        };
        known.slow_of = before.filter(|_| before == of_one);
        known.took = Took::default();
        // They would have held them for longer.
        known.took.add(2 * for_now, now);
        known.is_slow = true;
    }

    /// Finds out which calls are slow, if that was not done of late; queries of these hang now.
    pub(super) fn look(&mut self, hang: &[CallNumber], now: Time) {
        if self.looked != Time::ZERO && now.since(self.looked) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        let all = self.known.iter_mut().flatten();
        for known in all.filter(|known| !hang.contains(&known.call.number())) {
            known.recover(now);
        }
        let known = self.known.iter().flatten();
        let measured = known.clone().filter_map(|known| known.took.mean());
        let quickest = measured.min();
        let is_long = |mean| quickest.is_some_and(|quickest| mean >= slow_beside(quickest));
        let mut means: Vec<(Duration, usize)> = known
            .filter_map(|known| {
                let mean = known.took.mean()?;
                let is_past = now.since(known.took.last) > PAST_AFTER;
                (!(is_past && is_long(mean))).then_some((mean, known.call.number().0))
            })
            .collect();
        means.sort_unstable();
        for known in self.known.iter_mut().flatten() {
            // The median of the others.
            let place = means
                .iter()
                .position(|(_, of)| *of == known.call.number().0);
            let others = means.len() - usize::from(place.is_some());
            let median = others.saturating_sub(1) / 2;
            let median = median + usize::from(place.is_some_and(|place| place <= median));
            let median = (others > 0).then(|| means[median].0);
            known.patience = median.map_or(Duration::MAX, slow_beside);
            let is_slow = |took: Duration| took >= known.patience;
            known.is_slow = known.took.mean().is_some_and(is_slow);
            known.slow_of = known.slow_of.filter(|_| known.is_slow);
        }
    }

    /// Whether a call is slow, as was found last.
    pub(super) fn is_slow(&self, call: CallNumber) -> bool {
        self.of(call).is_slow
    }

    /// Likewise whether it is so whoever asks, for all that is known.
    pub(super) fn is_slow_for_all(&self, call: CallNumber) -> bool {
        let known = self.of(call);
        known.is_slow && known.slow_of.is_none()
    }

    /// Whether no query of this call was ever answered, or late.
    pub(super) fn is_new(&self, call: CallNumber) -> bool {
        let known = self.of(call);
        !known.was_answered && known.long_of.is_none()
    }

    /// Whether a query of this call was ever answered.
    pub(super) fn was_answered(&self, call: CallNumber) -> bool {
        self.of(call).was_answered
    }

    /// Whether a call is slow, or nothing is known of it yet.
    pub(super) fn may_be_slow(&self, call: CallNumber) -> bool {
        let known = self.of(call);
        known.is_slow || !known.was_answered
    }

    /// Whether a query of this call is slow that has taken so long.
    pub(super) fn takes_long(&self, call: CallNumber, for_now: Duration) -> bool {
        let known = self.of(call);
        known.is_slow || for_now >= known.patience
    }

    /// A query of this call is slow that has taken so long.
    pub(super) fn patience(&self, call: CallNumber) -> Duration {
        self.of(call).patience
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::world::call;
    use super::*;

    #[test]
    fn each_call_has_the_lowest_number_that_is_free() {
        let mut statements = Statements::new();
        let mut share = |key: usize| statements.share(&call(&[&key.to_string()], true));
        let held: Vec<Asked> = (0..CALLS_KEPT).map(&mut share).collect();
        let numbers = held.iter().map(|asked| asked.number().0);
        assert!(numbers.eq(0..CALLS_KEPT));
        assert_eq!(share(7).number(), held[7].number());
        // Of those of which no query is under way, the one that was asked longest ago is forgotten
        // for another.
        let mut held = held;
        held.truncate(40);
        held.remove(20);
        let numbers = (CALLS_KEPT..CALLS_KEPT + 3).map(|key| share(key).number().0);
        assert_eq!(numbers.collect::<Vec<_>>(), [20, 40, 41]);
        assert_eq!([39, 42].map(|key| share(key).number().0), [39, 42]);
    }
}
