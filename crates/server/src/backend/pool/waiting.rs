//! Queries that wait for a place in a pipe, in queues: by how far along their requests are, and in
//! each of these those that share a pipe with others, and those that go alone (see the pool's
//! text). Neither of the two holds up the other.
//!
//! The request that is furthest along goes first: what was done for it is of use once all its calls
//! are answered, and behind the first calls of all others its second would come too late. That does
//! not keep first calls waiting for ever: a later one comes of an answer that this backend gave to
//! its request before, and each request has only so many; where no first call goes, there are soon
//! no later ones.
//!
//! In each queue those who ask take turns: each has a line while queries of his wait, and after a
//! query of a line come those of the others. So the many queries of one wait for each other, not
//! others for them; and what he asks by a call that is slow, or of which nothing is known yet, has
//! a line by itself, so that his others pass. The visitors of an address have a line each, as far
//! as they are told apart. What may not go now, because its asker holds enough
//! (`share.rs`), is passed over with its line. The lines are kept apart by the call that is next in
//! them: where none of a call may go, whoever asks (`next.rs`), all of them are passed over at
//! once, however many they are.

use super::super::asked::CallNumber;
use super::super::awaited::Taken;
use crate::backend::Asker;
use rhythm_net::{Key, Slab};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// Requests that are so many calls along, or more, are as far along as any.
const STEPS_MAX: usize = 8;

/// A query that waits, and the one behind it in its line.
#[derive(Debug)]
struct Waiter {
    query: Taken,
    next: Option<Key>,
}

/// Who asks, which of his visitors, and whether by calls that may be slow.
type LineKey = (u64, u8, bool);

/// The line in which a query waits.
const fn line_of(query: &Taken) -> LineKey {
    (query.asker, query.visitor, query.may_be_slow)
}

/// Most lines of one who asks, in a queue.
const LINES_MAX: usize = 2 * Asker::VISITORS_MAX as usize;

/// The first and the last of a line.
type Ends = (Key, Key);

/// Whether a query may go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayGo {
    Yes,
    /// Not while its asker holds what he does. Only few are told so: those who hold something.
    NotOfHim,
    /// None of its call, whoever asks.
    NotOfIt,
}

/// Where a line stands in its queue.
#[derive(Clone, Copy, Debug)]
struct Place {
    call: usize,
    at: usize,
    /// Since which turn it waits.
    since: i64,
}

/// Queries of one kind. See the module's text.
#[derive(Debug, Default)]
struct Queue {
    /// The lines, by who asks. None is empty.
    lines: HashMap<LineKey, Ends>,
    /// By the call that is next in them, the lines in turn, and since which turn of all they wait
    /// for theirs.
    turns: Vec<VecDeque<(LineKey, i64)>>,
    length: usize,
}

impl Queue {
    /// A line waits for its turn since then.
    fn enter(&mut self, line: LineKey, CallNumber(call): CallNumber, since: i64) {
        if self.turns.len() <= call {
            self.turns.resize_with(call + 1, VecDeque::new);
        }
        let turns = &mut self.turns[call];
        let at = turns.partition_point(|(_, before)| *before <= since);
        turns.insert(at, (line, since));
    }

    /// A line waits no more among those of this call. Since when it did.
    fn leave(&mut self, line: LineKey, CallNumber(call): CallNumber) -> i64 {
        let at = self.turns[call].iter().position(|(of, _)| *of == line);
        let turn = at.and_then(|at| self.turns[call].remove(at));
        turn.expect("a line's turn").1
    }

    fn push_back(&mut self, waiters: &mut Slab<Waiter>, turn: i64, query: Taken) {
        let call = query.call.number();
        let line_key = line_of(&query);
        let next = None;
        let key = waiters.insert(Waiter { query, next });
        self.length += 1;
        match self.lines.entry(line_key) {
            Entry::Occupied(mut line) => {
                let before = std::mem::replace(&mut line.get_mut().1, key);
                waiters.get_mut(before).expect("it waits").next = Some(key);
            }
            Entry::Vacant(line) => {
                line.insert((key, key));
                self.enter(line_key, call, turn);
            }
        }
    }

    fn push_front(&mut self, waiters: &mut Slab<Waiter>, turn: i64, query: Taken) {
        let call = query.call.number();
        let line_key = line_of(&query);
        let next = self.lines.get(&line_key).map(|(first, _)| *first);
        let key = waiters.insert(Waiter { query, next });
        self.length += 1;
        match self.lines.entry(line_key) {
            // It comes before others of its line only: who asks much is not first for it.
            Entry::Occupied(mut line) => {
                let before = std::mem::replace(&mut line.get_mut().0, key);
                let before = waiters.get(before).expect("it waits").query.call.number();
                if before != call {
                    let since = self.leave(line_key, before);
                    self.enter(line_key, call, since);
                }
            }
            Entry::Vacant(line) => {
                line.insert((key, key));
                self.enter(line_key, call, turn);
            }
        }
    }

    /// The place of the next query of those that may go.
    fn next(&self, waiters: &Slab<Waiter>, may_go: &impl Fn(&Taken) -> MayGo) -> Option<Place> {
        let mut next: Option<Place> = None;
        for (call, turns) in self.turns.iter().enumerate().filter(|_| self.length > 0) {
            for (at, (line, since)) in turns.iter().enumerate() {
                if next.is_some_and(|next| next.since < *since) {
                    break;
                }
                let (first, _) = self.lines[line];
                match may_go(&waiters.get(first).expect("it waits").query) {
                    MayGo::NotOfHim => continue,
                    MayGo::NotOfIt => break,
                    MayGo::Yes => {}
                }
                let since = *since;
                next = Some(Place { call, at, since });
                break;
            }
        }
        next
    }

    /// Takes the first out of the line at this place, whose next turn begins then.
    fn pop(&mut self, waiters: &mut Slab<Waiter>, turn: i64, place: Place) -> Taken {
        let line = self.turns[place.call].remove(place.at);
        let (line_key, _) = line.expect("a line's turn");
        let line = self.lines.get_mut(&line_key).expect("a line in turn");
        let Waiter { query, next } = waiters.remove(line.0).expect("it waits");
        match next {
            Some(next) => {
                line.0 = next;
                let next = waiters.get(next).expect("it waits").query.call.number();
                self.enter(line_key, next, turn);
            }
            None => {
                self.lines.remove(&line_key);
            }
        }
        self.length -= 1;
        query
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    waiters: Slab<Waiter>,
    /// Those that share, and those that go alone, by their requests' steps.
    steps: [[Queue; 2]; STEPS_MAX],
    /// How many there are of each call, by its number.
    of_calls: Vec<usize>,
    /// Turns that have begun, and those of lines that came before all others.
    turn: i64,
    turns_before: i64,
}

impl Waiting {
    /// A query's queue, where all wait, and the number of the next turn.
    fn queue(&mut self, query: &Taken) -> (&mut Queue, &mut Slab<Waiter>, i64) {
        self.turn += 1;
        let step = (query.step as usize).min(STEPS_MAX - 1);
        let queue = &mut self.steps[step][usize::from(query.is_alone)];
        (queue, &mut self.waiters, self.turn)
    }

    /// A query that has just come.
    pub(super) fn push_back(&mut self, query: Taken) {
        self.remember(query.call.number());
        let (queue, waiters, turn) = self.queue(&query);
        queue.push_back(waiters, turn, query);
    }

    /// One that has waited before: it goes before all others of its asker that are as far along.
    pub(super) fn push_front(&mut self, query: Taken) {
        self.remember(query.call.number());
        self.turns_before += 1;
        let turn = -self.turns_before;
        let (queue, waiters, _) = self.queue(&query);
        queue.push_front(waiters, turn, query);
    }

    /// Takes the query at this place of a queue.
    fn pop_at(&mut self, step: usize, is_alone: bool, place: Place) -> Taken {
        self.turn += 1;
        let queue = &mut self.steps[step][usize::from(is_alone)];
        let query = queue.pop(&mut self.waiters, self.turn, place);
        self.of_calls[query.call.number().0] -= 1;
        query
    }

    /// One more of a call.
    fn remember(&mut self, CallNumber(call): CallNumber) {
        if self.of_calls.len() <= call {
            self.of_calls.resize(call + 1, 0);
        }
        self.of_calls[call] += 1;
    }

    /// The next that shares, of those that may go.
    pub(super) fn pop_shared(
        &mut self,
        may_go: impl Fn(&Waiting, &Taken) -> MayGo,
    ) -> Option<Taken> {
        let (step, place) = (0..STEPS_MAX).rev().find_map(|step| {
            let may_go = |query: &Taken| may_go(self, query);
            let place = self.steps[step][0].next(&self.waiters, &may_go)?;
            Some((step, place))
        })?;
        Some(self.pop_at(step, false, place))
    }

    /// The next of all that may go, for a pipe without others: of the two that are next in their
    /// queues, the one whose line has waited longer.
    pub(super) fn pop(&mut self, may_go: impl Fn(&Waiting, &Taken) -> MayGo) -> Option<Taken> {
        let (step, is_alone, place) = (0..STEPS_MAX).rev().find_map(|step| {
            let may_go = |query: &Taken| may_go(self, query);
            let [shared, alone] =
                (self.steps[step].each_ref()).map(|queue| queue.next(&self.waiters, &may_go));
            let is_alone = match (shared, alone) {
                (Some(shared), Some(alone)) => alone.since < shared.since,
                (_, alone) => alone.is_some(),
            };
            let place = if is_alone { alone? } else { shared? };
            Some((step, is_alone, place))
        })?;
        Some(self.pop_at(step, is_alone, place))
    }

    /// Whether there is one that may go.
    pub(super) fn has_next(&self, may_go: impl Fn(&Waiting, &Taken) -> MayGo) -> bool {
        let may_go = |query: &Taken| may_go(self, query);
        let mut queues = self.steps.iter().flatten();
        queues.any(|queue| queue.next(&self.waiters, &may_go).is_some())
    }

    /// How many share, and how many go alone.
    pub(super) fn counts(&self) -> [usize; 2] {
        let of = |kind: usize| self.steps.iter().map(|step| step[kind].length).sum();
        [of(0), of(1)]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// The calls that wait, and how many there are of each.
    pub(super) fn of_calls(&self) -> impl Iterator<Item = (CallNumber, usize)> {
        let all = self.of_calls.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(call, count)| (CallNumber(call), *count))
    }

    /// The next query of each line, of those that go alone or not, and of these calls.
    pub(super) fn next_of_lines(
        &self,
        is_alone: bool,
        of: impl Fn(CallNumber) -> bool,
    ) -> impl Iterator<Item = &Taken> {
        let query = |key: Key| &self.waiters.get(key).expect("it waits").query;
        let queues = self
            .steps
            .iter()
            .map(move |step| &step[usize::from(is_alone)]);
        let calls = queues.flat_map(|queue| {
            let all = queue.turns.iter().enumerate();
            all.map(move |(call, turns)| (queue, call, turns))
        });
        calls
            .filter(move |(_, call, turns)| !turns.is_empty() && of(CallNumber(*call)))
            .flat_map(|(queue, _, turns)| turns.iter().map(|(line, _)| queue.lines[line].0))
            .map(query)
    }

    /// Whether others wait than this one who asks.
    pub(super) fn has_others(&self, asker: u64) -> bool {
        let is_of_others = |queue: &Queue| {
            queue.lines.len() > LINES_MAX || queue.lines.keys().any(|(of, ..)| *of != asker)
        };
        self.steps.iter().flatten().any(is_of_others)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Taken> {
        self.waiters.iter().map(|(_, waiter)| &waiter.query)
    }

    /// Takes out those that this does not say of that they stay; it is asked in the order in which
    /// they are to go.
    pub(super) fn sift(
        &mut self,
        mut stays: impl FnMut(&Taken) -> bool,
        mut take: impl FnMut(Taken),
    ) {
        let mut left = Vec::with_capacity(self.len());
        while let Some(query) = self.pop(|_, _| MayGo::Yes) {
            match stays(&query) {
                true => left.push(query),
                false => take(query),
            }
        }
        left.into_iter().for_each(|query| self.push_back(query));
    }

    /// Takes out those that this says of.
    pub(super) fn extract(
        &mut self,
        mut which: impl FnMut(&Taken) -> bool,
        mut take: impl FnMut(Taken),
    ) {
        for queue in self.steps.iter_mut().flatten() {
            // Each line is put back as it was, but for those.
            let turns = std::mem::take(&mut queue.turns);
            queue.length = 0;
            for (line_key, turn) in turns.into_iter().flatten() {
                let (first, _) = queue.lines.remove(&line_key).expect("a line in turn");
                let mut next = Some(first);
                while let Some(key) = next {
                    let waiter = self.waiters.remove(key).expect("it waits");
                    next = waiter.next;
                    match which(&waiter.query) {
                        true => {
                            self.of_calls[waiter.query.call.number().0] -= 1;
                            take(waiter.query);
                        }
                        false => queue.push_back(&mut self.waiters, turn, waiter.query),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::asked::Asked;
    use super::super::tests::world::call;
    use super::*;
    use proptest::prelude::*;
    use rhythm_net::Time;
    use std::cell::Cell;

    fn query(key: u64, asker: u64, is_alone: bool) -> Taken {
        query_of(0, key, asker, is_alone)
    }

    fn query_of(of: usize, key: u64, asker: u64, is_alone: bool) -> Taken {
        Taken {
            fields: Box::default(),
            key,
            call: Asked::new(call(&["a"], true), CallNumber(of)),
            asker,
            visitor: 0,
            arguments: Vec::new(),
            bytes: 0,
            deadline: Time::NEVER,
            step: 0,
            retries: 0,
            is_alone,
            may_be_slow: false,
        }
    }

    fn keys(waiting: &mut Waiting, may_go: impl Fn(&Taken) -> bool) -> Vec<u64> {
        let may_go = |query: &Taken| match may_go(query) {
            true => MayGo::Yes,
            false => MayGo::NotOfHim,
        };
        let all = std::iter::from_fn(|| waiting.pop(|_, query| may_go(query)));
        all.map(|query| query.key).collect()
    }

    #[test]
    fn those_who_ask_take_turns() {
        let mut waiting = Waiting::default();
        for key in 0..1000 {
            waiting.push_back(query(key, 7, key % 2 == 0));
        }
        waiting.push_back(query(1000, 8, true));
        waiting.push_back(query(1001, 9, false));
        assert!(waiting.has_others(7));
        let keys = keys(&mut waiting, |_| true);
        assert!(keys.iter().position(|key| *key == 1000) < Some(6));
        assert!(keys.iter().position(|key| *key == 1001) < Some(6));
        let of_one: Vec<u64> = keys.into_iter().filter(|key| *key < 1000).collect();
        assert_eq!(of_one, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn visitors_of_an_address_take_turns_as_users_do() {
        let mut waiting = Waiting::default();
        let of_visitor = |key: u64| Taken {
            visitor: (key % u64::from(Asker::VISITORS_MAX)) as u8,
            ..query(key, 7, key.is_multiple_of(2))
        };
        (0..320).for_each(|key| waiting.push_back(of_visitor(key)));
        assert!(!waiting.has_others(7));
        (0..10).for_each(|user| waiting.push_back(query(1000 + user, 100 + user, false)));
        // One of an address with only few visitors.
        waiting.push_back(query(2000, 8, false));
        assert!(waiting.has_others(7));
        let keys = keys(&mut waiting, |_| true);
        let place = |of: u64| keys.iter().position(|key| *key == of);
        // Who came first of each goes first, and who is alone waits for each of them once or, since
        // there are two queues, twice.
        assert!((0..32).all(|key| place(key) < Some(2 * 43)), "{keys:?}");
        assert!(place(2000) < Some(2 * 43), "{keys:?}");
        // The last of an address waits for all of it, as before.
        assert!(place(319) > Some(300), "{keys:?}");
    }

    #[test]
    fn who_is_further_along_goes_first() {
        let mut waiting = Waiting::default();
        for key in 0..12 {
            waiting.push_back(Taken {
                step: [0, 1, 7, 1000][key as usize % 4],
                ..query(key, key, key % 3 == 0)
            });
        }
        assert_eq!(waiting.counts(), [8, 4]);
        assert_eq!(
            waiting.pop_shared(|_, _| MayGo::Yes).map(|query| query.key),
            Some(2)
        );
        let all = keys(&mut waiting, |_| true);
        // Beyond some steps all are as far along.
        assert_eq!(all, [3, 6, 7, 10, 11, 1, 5, 9, 0, 4, 8]);
        assert!(waiting.is_empty() && waiting.of_calls().next().is_none());
    }

    #[test]
    fn what_is_sifted_keeps_its_order() {
        let mut waiting = Waiting::default();
        for key in 0..30 {
            waiting.push_back(query(key, key / 10, key % 3 == 0));
        }
        let (mut order, mut taken) = (Vec::new(), Vec::new());
        let stays = |query: &Taken| {
            order.push(query.key);
            order.len() <= 12
        };
        waiting.sift(stays, |query| taken.push(query.key));
        assert_eq!(taken, order[12..]);
        // Of each who asks as many.
        let of = |asker: u64| order[..12].iter().filter(|key| **key / 10 == asker).count();
        assert_eq!([0, 1, 2].map(of), [4, 4, 4]);
        assert_eq!(keys(&mut waiting, |_| true), order[..12]);
    }

    #[test]
    fn nobody_stands_behind_another() {
        let mut waiting = Waiting::default();
        for asker in 0..1000 {
            for of_his in 0..2 {
                waiting.push_back(query(1000 * of_his + asker, asker, false));
            }
        }
        let keys = keys(&mut waiting, |_| true);
        assert_eq!(keys, (0..2000).collect::<Vec<_>>());
    }

    #[test]
    fn who_may_not_go_is_passed_over_and_keeps_his_place() {
        let mut waiting = Waiting::default();
        for key in 0..10 {
            waiting.push_back(query(key, key % 2, key % 3 == 0));
        }
        let mut of_one = keys(&mut waiting, |query| query.asker == 1);
        of_one.sort_unstable();
        assert_eq!(of_one, [1, 3, 5, 7, 9]);
        assert!(!waiting.has_others(0) && waiting.has_others(1));
        assert_eq!(waiting.counts(), [3, 2]);
        waiting.push_front(query(10, 0, true));
        let left = keys(&mut waiting, |_| true);
        let places = [10, 0, 6].map(|key| left.iter().position(|at| *at == key));
        assert!(left.len() == 6 && places.is_sorted(), "{left:?}");
        assert!(waiting.is_empty() && !waiting.has_others(1));
    }

    #[test]
    fn what_may_not_go_whoever_asks_is_passed_over_at_once() {
        let mut waiting = Waiting::default();
        for key in 0..6000 {
            let of = key as usize % 3;
            waiting.push_back(query_of(of, key, key, key % 2 == 0));
        }
        waiting.push_back(query_of(3, 6000, 6000, false));
        waiting.push_back(query_of(4, 6001, 6001, true));
        let asked = Cell::new(0);
        let may_go = |_: &Waiting, query: &Taken| {
            asked.set(asked.get() + 1);
            match query.call.number().0 {
                0..3 => MayGo::NotOfIt,
                _ => MayGo::Yes,
            }
        };
        let all = std::iter::from_fn(|| waiting.pop(may_go));
        assert_eq!(all.map(|query| query.key).collect::<Vec<_>>(), [6000, 6001]);
        assert!(asked.get() < 40, "{asked:?}");
        // All of them go in turn again when they may.
        assert_eq!(keys(&mut waiting, |_| true), (0..6000).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_waits_among_those_of_the_call_that_is_next_in_it() {
        let mut waiting = Waiting::default();
        waiting.push_back(query_of(1, 0, 7, false));
        waiting.push_back(query_of(0, 1, 8, false));
        waiting.push_front(query_of(2, 2, 7, false));
        waiting.push_back(query_of(2, 3, 9, false));
        let without = |of: usize| {
            move |_: &Waiting, query: &Taken| match query.call.number().0 == of {
                true => MayGo::NotOfIt,
                false => MayGo::Yes,
            }
        };
        assert_eq!(waiting.pop(without(2)).map(|query| query.key), Some(1));
        assert_eq!(waiting.pop(without(1)).map(|query| query.key), Some(2));
        assert_eq!(waiting.pop(without(1)).map(|query| query.key), Some(3));
        assert!(waiting.pop(without(1)).is_none());
        assert_eq!(keys(&mut waiting, |_| true), [0]);
        assert!(waiting.is_empty());
    }

    proptest! {
        /// Each comes out once, those of one asker and kind in their order, whatever is taken out
        /// between.
        #[test]
        fn nothing_is_lost(
            steps in proptest::collection::vec((0..6u8, 0..20u64, any::<bool>()), 1..200),
        ) {
            let mut waiting = Waiting::default();
            let mut model: Vec<(u64, u64, bool)> = Vec::new();
            for (key, (step, asker, is_alone)) in (0..).zip(steps) {
                let first_of = |model: &[(u64, u64, bool)], key: u64| {
                    let of = model.iter().find(|at| at.0 == key).copied().expect("it waits");
                    model.iter().find(|at| (at.1, at.2) == (of.1, of.2)).copied()
                };
                let popped = match step {
                    0..=2 => {
                        let of = (key % 3) as usize;
                        waiting.push_back(query_of(of, key, asker, is_alone));
                        model.push((key, asker, is_alone));
                        continue;
                    }
                    3 => waiting.pop(|_, _| MayGo::Yes),
                    4 => waiting.pop_shared(|_, _| MayGo::Yes),
                    _ => {
                        let mut out = 0;
                        waiting.extract(|query| query.asker % 7 == 0, |_| out += 1);
                        let before = model.len();
                        model.retain(|at| at.1 % 7 != 0);
                        prop_assert_eq!(out, before - model.len());
                        continue;
                    }
                };
                if let Some(query) = popped {
                    let first = first_of(&model, query.key);
                    prop_assert_eq!(first.map(|at| at.0), Some(query.key));
                    model.retain(|at| at.0 != query.key);
                }
                prop_assert_eq!(waiting.counts().iter().sum::<usize>(), model.len());
                prop_assert_eq!(waiting.iter().count(), model.len());
            }
            let mut left = keys(&mut waiting, |_| true);
            left.sort_unstable();
            prop_assert_eq!(left, model.iter().map(|at| at.0).collect::<Vec<_>>());
        }
    }
}
