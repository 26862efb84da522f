//! A circuit breaker: a backend that fails is left alone for a while.
//!
//! ```text
//!              no connection, or most               cool-down over
//!              calls fail over a window
//!    closed ----------------------------> open ---------------------> half open
//!      ^                                   ^                            |   |
//!      |                                   |   no connection            |   |
//!      |                                   +----------------------------+   |
//!      +--------------------------------------------------------------------+
//!                       trials went well, each round of them twice as many
//! ```
//!
//! While it is open, queries are refused at once, which costs neither them nor the backend time;
//! half open, some are let through to see, shared out by who asks and by what is asked
//! (`trials.rs`): so many in each round, which lasts as long as the circuit stays open otherwise.
//! Trials that fail end no round, since those of a call that always fails come first where it is
//! asked for most, and the others are to have theirs. Two things open it: connections that cannot
//! be opened, so many in a row while none stands; and calls that fail, where that is the backend's
//! and nobody else's doing. Hence failures are counted by who asked and by what was asked, each in
//! a table of fixed size: one user whose every call fails, or one statement that is wrong, is one
//! slot among those that are answered well, however often it is tried. Counts are halved as time
//! passes.
//!
//! The breaker reads no clock. It logs when it opens, and when it is closed again, once for those
//! of all workers (`news.rs`); trials that fail in between are no news.

mod news;
mod outcomes;
mod trials;

use super::super::asked::CallNumber;
use super::super::awaited::Taken;
use super::super::failure::Cause;
use news::Failing;
use outcomes::Outcomes;
use rhythm_net::Time;
use std::io::ErrorKind;
use std::time::Duration;
use trials::Trials;

/// When a circuit opens and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOptions {
    /// So many attempts at a connection that fail in a row, while none stands, open it; 0 is taken
    /// as 1.
    pub unreachable_max: u32,
    /// Calls that fail open it if they are so many within a window, and most.
    pub failures_min: u32,
    /// The window: outcomes count half after this time.
    pub window: Duration,
    /// How long it stays open before the backend is tried again.
    pub cool_down: Duration,
}

impl Default for CircuitOptions {
    fn default() -> CircuitOptions {
        CircuitOptions {
            unreachable_max: 5,
            failures_min: 20,
            window: Duration::from_secs(5),
            cool_down: Duration::from_secs(1),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Time },
    HalfOpen(Box<Trials>),
}

/// A circuit breaker.
#[derive(Debug)]
pub(super) struct Circuit {
    /// The backend's name.
    name: Box<str>,
    options: CircuitOptions,
    state: State,
    /// While it is anything but closed.
    failing: Option<Failing>,
    outcomes: Outcomes,
    /// Attempts at a connection that failed, since one was opened.
    unreachable: u32,
}

impl Circuit {
    pub(super) fn new(name: &str, options: CircuitOptions) -> Circuit {
        Circuit {
            name: name.into(),
            options,
            state: State::Closed,
            failing: None,
            outcomes: Outcomes::none(Time::ZERO),
            unreachable: 0,
        }
    }

    /// Whether a query of this one, by this call, may go. After the cool-down some may, as trials.
    pub(super) fn admit(&mut self, asker: u64, call: CallNumber, now: Time) -> bool {
        match &self.state {
            State::Closed => return true,
            State::Open { until } if now < *until => return false,
            State::HalfOpen(trials) if now < trials.until => {}
            State::Open { .. } => self.begin(Trials::first(now + self.options.cool_down), now),
            State::HalfOpen(trials) => match trials.are_well(&self.outcomes) {
                true => self.round_over(now),
                false => self.begin(trials.again(now + self.options.cool_down), now),
            },
        }
        match &mut self.state {
            State::HalfOpen(trials) => trials.admit(asker, call),
            _ => true,
        }
    }

    /// Begins a round of trials.
    fn begin(&mut self, trials: Trials, now: Time) {
        self.outcomes = Outcomes::none(now + self.options.window);
        self.state = State::HalfOpen(Box::new(trials));
    }

    /// A round of trials went well: begins the next, or closes the circuit.
    fn round_over(&mut self, now: Time) {
        if let State::HalfOpen(trials) = &self.state
            && let Some(next) = trials.next(now + self.options.cool_down)
        {
            return self.begin(next, now);
        }
        // What the last trials told counts: of the calls that fail more come at once.
        self.state = State::Closed;
        if self.failing.take().is_some_and(Failing::end) {
            tracing::info!(backend = &*self.name, "the backend answers again");
        }
    }

    /// A connection was opened, and is asked something.
    pub(super) fn reached(&mut self) {
        self.unreachable = 0;
    }

    /// No connection could be opened, and none stands.
    pub(super) fn unreachable(&mut self, why: ErrorKind, now: Time) {
        self.unreachable = self.unreachable.saturating_add(1);
        let is_trial = matches!(self.state, State::HalfOpen(_));
        if is_trial || self.unreachable >= self.options.unreachable_max {
            self.open(Cause::Unreachable(why), now);
        }
    }

    /// A query was answered by a backend in order, whatever the answer.
    pub(super) fn succeeded(&mut self, query: &Taken, now: Time) {
        if self.is_open() {
            // An answer to a query from before: the cool-down stands.
            return;
        }
        self.outcomes.count(query, true, self.options.window, now);
        if let State::HalfOpen(trials) = &mut self.state
            && trials.succeeded(query)
        {
            self.round_over(now);
        }
    }

    /// A query failed.
    pub(super) fn failed(&mut self, query: &Taken, cause: Cause, now: Time) {
        if self.is_open() {
            return;
        }
        self.outcomes.count(query, false, self.options.window, now);
        let is_closed = self.state == State::Closed;
        if is_closed && self.outcomes.are_bad(self.options.failures_min) {
            self.open(cause, now);
        }
    }

    fn open(&mut self, cause: Cause, now: Time) {
        self.state = State::Open {
            until: now + self.options.cool_down,
        };
        if self.failing.is_some() {
            return;
        }
        let (failing, is_first) = Failing::begin(&self.name);
        self.failing = Some(failing);
        if is_first {
            tracing::warn!(
                backend = &*self.name,
                cause = cause.to_string(),
                cure = cause.cure(),
                "the backend fails: its requests are answered 503, but for some tries every {:?}",
                self.options.cool_down,
            );
        }
    }

    /// Is it open: is nothing to be sent?
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Does the backend fail, by what is known: has no trial gone well since it was opened? Where
    /// few ask, trials take a while to close it, and the backend is well long before.
    pub(super) fn fails(&self) -> bool {
        match &self.state {
            State::Closed => false,
            State::Open { .. } => true,
            State::HalfOpen(trials) => trials.none_is_well(),
        }
    }

    /// Is it anything but closed: are queries, all or all but trials, refused?
    #[cfg(test)]
    pub(super) fn refuses(&self) -> bool {
        self.state != State::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::asked::Asked;
    use super::super::tests::world::call;
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Queries of two calls, by many.
    struct Bank {
        circuit: Circuit,
        calls: [Asked; 2],
    }

    impl Bank {
        fn new() -> Bank {
            let options = CircuitOptions {
                unreachable_max: 3,
                failures_min: 10,
                window: Duration::from_millis(1000),
                cool_down: Duration::from_millis(100),
            };
            Bank {
                circuit: Circuit::new("bank", options),
                calls: [0, 1].map(|number| Asked::new(call(&["a"], true), CallNumber(number))),
            }
        }

        fn query(&self, asker: u64, call: usize) -> Taken {
            Taken {
                fields: Box::default(),
                key: 0,
                call: self.calls[call].clone(),
                asker,
                visitor: 0,
                arguments: Vec::new(),
                bytes: 0,
                deadline: Time::NEVER,
                step: 0,
                retries: 0,
                is_alone: false,
                may_be_slow: false,
            }
        }

        fn admit(&mut self, asker: u64, now: Time) -> bool {
            self.admit_to(asker, 0, now)
        }

        /// Whether one may ask this call.
        fn admit_to(&mut self, asker: u64, call: usize, now: Time) -> bool {
            self.circuit.admit(asker, self.calls[call].number(), now)
        }

        fn well(&mut self, asker: u64, call: usize, ms: u64) {
            let query = self.query(asker, call);
            self.circuit.succeeded(&query, at(ms));
        }

        fn fail(&mut self, asker: u64, call: usize, ms: u64) {
            let query = self.query(asker, call);
            self.circuit.failed(&query, Cause::Status(500), at(ms));
        }

        fn broken() -> Bank {
            let mut bank = Bank::new();
            (0..10).for_each(|i| bank.fail(i, 0, 0));
            assert!(bank.circuit.is_open());
            bank
        }
    }

    #[test]
    fn no_one_who_asks_opens_it_alone() {
        let mut bank = Bank::new();
        for ms in 0..5000 {
            bank.fail(7, ms as usize % 2, ms);
        }
        assert!(!bank.circuit.refuses(), "nobody else asks");
        for ms in 5000..9000 {
            bank.fail(7, 0, ms);
            bank.fail(8, 1, ms);
            if ms % 100 == 0 {
                bank.well(ms, 0, ms);
            }
        }
        assert!(!bank.circuit.refuses());
    }

    #[test]
    fn no_statement_opens_it_where_another_is_answered() {
        let mut bank = Bank::new();
        for i in 0..1000 {
            bank.fail(i, 0, i);
            if i % 5 == 0 {
                bank.well(i, 1, i);
            }
        }
        assert!(!bank.circuit.refuses());
    }

    #[test]
    fn most_calls_of_most_askers_open_it_but_not_a_few() {
        let mut bank = Bank::new();
        for i in 0..9 {
            bank.fail(i, i as usize % 2, i);
        }
        assert!(!bank.circuit.refuses(), "they are few");
        bank.fail(9, 1, 9);
        assert!(bank.circuit.is_open() && !bank.admit(99, at(9)));
        let mut bank = Bank::new();
        for i in 0..1000 {
            bank.fail(i, i as usize % 2, i);
            bank.well(i, i as usize % 2, i);
        }
        assert!(!bank.circuit.refuses(), "half of them are well");
        // What was long ago does not count.
        let mut bank = Bank::new();
        for i in 0..100 {
            bank.fail(i, 0, 600 * i);
        }
        assert!(!bank.circuit.refuses());
    }

    #[test]
    fn connections_that_fail_in_a_row_open_it() {
        let mut bank = Bank::new();
        for _ in 0..5 {
            bank.circuit
                .unreachable(ErrorKind::ConnectionRefused, at(0));
            bank.circuit
                .unreachable(ErrorKind::ConnectionRefused, at(0));
            bank.circuit.reached();
        }
        assert!(bank.admit(99, at(0)));
        (0..3).for_each(|_| {
            bank.circuit
                .unreachable(ErrorKind::ConnectionRefused, at(0))
        });
        assert!(bank.circuit.is_open());
        // A trial that reaches nobody is enough.
        assert!(bank.admit(99, at(100)) && !bank.circuit.is_open());
        bank.circuit
            .unreachable(ErrorKind::ConnectionRefused, at(101));
        assert!(bank.circuit.is_open());
    }

    #[test]
    fn rounds_of_trials_grow_until_it_closes() {
        let mut bank = Bank::broken();
        bank.well(1, 0, 50);
        assert!(!bank.admit(99, at(99)));
        for trials in [4, 8, 16, 32] {
            assert!((0..trials).all(|asker| bank.admit(asker, at(100))));
            assert!(!bank.admit(99, at(100)) && bank.circuit.refuses());
            (0..=trials / 2).for_each(|i| bank.well(i, 0, 100));
        }
        assert!(!bank.circuit.refuses());
        // The count starts anew.
        (0..9).for_each(|i| bank.fail(i, 0, 101));
        assert!(!bank.circuit.refuses());
    }

    #[test]
    fn trials_fail_by_several_or_are_tried_again() {
        let mut bank = Bank::broken();
        assert!((0..4).all(|asker| bank.admit(asker, at(100))));
        (0..3).for_each(|_| bank.fail(7, 0, 100));
        (0..4).for_each(|asker| bank.fail(asker, 0, 100));
        // There are more after a cool-down, and as few.
        for round in 2..9 {
            let now = 100 * round;
            assert!(!bank.admit(99, at(now - 1)), "{round}");
            assert!((0..4).all(|asker| bank.admit(asker, at(now))), "{round}");
            assert!(!bank.admit(99, at(now)), "{round}");
            (0..4).for_each(|asker| bank.fail(asker, 0, now + 1));
            assert!(bank.circuit.fails() && bank.circuit.refuses(), "{round}");
        }
    }

    #[test]
    fn a_call_that_fails_at_once_keeps_no_other_from_being_tried() {
        let mut bank = Bank::broken();
        let mut now = 100;
        // Whoever asks for it asks a thousand times before anybody asks for the other.
        while bank.circuit.refuses() {
            for asker in 0..1000 {
                if bank.admit_to(asker, 1, at(now)) {
                    bank.fail(asker, 1, now);
                }
            }
            assert!(bank.admit(7, at(now)), "{now}");
            bank.well(7, 0, now);
            now += 1;
            assert!(now < 200, "it is not closed");
        }
        // Nor does it open the circuit again, however many come at once.
        (0..1000).for_each(|asker| bank.fail(asker, 1, now));
        assert!(!bank.circuit.refuses());
    }

    #[test]
    fn nobody_takes_all_trials() {
        let mut bank = Bank::broken();
        // One whose calls hang, or fail, asks before all others.
        let asked = (0..1000).filter(|_| bank.admit(7, at(100))).count();
        assert_eq!(asked, 1);
        bank.fail(7, 0, 100);
        assert!(!bank.admit(7, at(100)));
        for trials in [4, 8, 16, 32] {
            for asker in 10..=10 + trials / 2 {
                assert!(bank.admit(asker, at(100)), "{asker} of {trials}");
                assert!(!bank.admit(asker, at(100)), "{asker} of {trials}");
                bank.well(asker, 0, 100);
            }
        }
        assert!(!bank.circuit.refuses());
    }

    #[test]
    fn a_round_that_is_not_full_is_over_after_a_time() {
        let mut bank = Bank::broken();
        assert!(bank.circuit.fails());
        for round in 1..=4 {
            assert!(bank.admit(7, at(100 * round)));
            bank.well(7, 0, 100 * round + 50);
            assert!(bank.circuit.refuses(), "{round}");
            assert!(!bank.circuit.fails(), "{round}");
        }
        assert!(bank.admit(7, at(500)) && !bank.circuit.refuses());
        // Not where as many tell nothing, or failed.
        let mut bank = Bank::broken();
        for round in 1..=9 {
            assert!(bank.admit(7, at(100 * round)));
            assert!(bank.admit(8, at(100 * round)));
            bank.well(7, 0, 100 * round + 50);
        }
        assert!(bank.circuit.refuses());
    }

    #[test]
    fn one_call_that_hangs_takes_no_trials_of_others() {
        let mut bank = Bank::broken();
        // Whoever asks for it asks before all others.
        let hangs = (0..1000).filter(|asker| bank.admit_to(*asker, 1, at(100)));
        assert_eq!(hangs.count(), 4);
        for asker in 1000.. {
            if !bank.circuit.refuses() {
                break;
            }
            assert!(bank.admit(asker, at(100)), "{asker}");
            bank.well(asker, 0, 100);
            assert!(asker < 1040, "it is not closed");
        }
    }

    #[test]
    fn one_call_that_fails_does_not_end_trials_where_another_is_answered() {
        let mut bank = Bank::broken();
        for round in 1..50 {
            let now = 100 * round;
            for asker in 0..4 {
                assert!(bank.admit_to(100 * round + asker, 1, at(now)), "{round}");
            }
            if round % 7 == 1 {
                // One of the other now and then: it is answered.
                assert!(bank.admit(7, at(now)), "{round}");
                bank.well(7, 0, now);
            }
            for asker in 0..4 {
                bank.fail(100 * round + asker, 1, now + 50);
            }
            assert!(!bank.circuit.is_open(), "{round}");
        }
    }

    #[test]
    fn where_few_ask_as_many_calls_that_are_answered_as_hang_close_it() {
        let mut bank = Bank::broken();
        for round in 1..=4 {
            let now = 100 * round;
            assert_eq!(
                (10..90).filter(|i| bank.admit_to(*i, 1, at(now))).count(),
                4
            );
            assert!(bank.admit(7, at(now)), "{round}");
            bank.well(7, 0, now + 50);
            assert!(bank.circuit.refuses(), "{round}");
        }
        assert!(bank.admit(7, at(500)) && !bank.circuit.refuses());
    }

    #[test]
    fn trials_of_all_calls_together_are_bounded() {
        let mut bank = Bank::broken();
        let asked = (0..100).map(CallNumber).zip(0..);
        let admitted = asked.filter(|(call, asker)| bank.circuit.admit(*asker, *call, at(100)));
        assert_eq!(admitted.count(), 32);
    }
}
