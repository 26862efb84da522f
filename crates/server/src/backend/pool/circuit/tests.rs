//! The circuit breaker by itself, without a pool.

use super::super::super::asked::Asked;
use super::super::tests::world::call;
use super::*;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Queries of three calls, by many.
struct Bank {
    circuit: Circuit,
    calls: [Asked; 3],
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
            calls: [0, 1, 2].map(|number| Asked::new(call(&["a"], true), CallNumber(number))),
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
fn a_call_that_is_answered_goes_on_where_two_others_fail() {
    let mut bank = Bank::new();
    (0..5).for_each(|_| bank.well(77, 2, 0));
    (0..10).for_each(|i| bank.fail(i, i as usize % 2, 1));
    assert!(bank.circuit.is_open() && bank.circuit.fails() && bank.circuit.spares_some());
    assert!(!bank.admit_to(99, 0, at(2)) && !bank.admit_to(99, 1, at(2)));
    // However often it is asked, and answered: that closes nothing.
    for ms in 2..5000 {
        assert!(bank.admit_to(99, 2, at(ms)), "{ms}");
        bank.well(99, 2, ms);
        if ms > 100 && ms % 100 == 50 {
            let tried = (0..50).filter(|asker| bank.admit_to(*asker, 0, at(ms)));
            assert_eq!(tried.count(), 4, "{ms}");
            (0..4).for_each(|asker| bank.fail(asker, 0, ms));
        }
        assert!(bank.circuit.refuses(), "{ms}");
    }
    // When it fails as well it is refused with the others.
    let mut bank = Bank::new();
    (0..5).for_each(|_| bank.well(77, 2, 0));
    (0..10).for_each(|i| bank.fail(i, i as usize % 2, 1));
    bank.well(1, 2, 2);
    bank.fail(2, 2, 2);
    assert!(bank.admit_to(99, 2, at(2)));
    bank.fail(3, 2, 2);
    assert!(!bank.admit_to(99, 2, at(2)));
    // Nor does it go on where nobody can be reached.
    let mut bank = Bank::new();
    (0..5).for_each(|_| bank.well(77, 2, 0));
    for _ in 0..3 {
        bank.circuit
            .unreachable(ErrorKind::ConnectionRefused, at(1));
    }
    assert!(!bank.admit_to(99, 2, at(1)));
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

#[test]
fn of_what_failed_long_ago_nothing_is_known() {
    let mut bank = Bank::broken();
    assert_eq!(bank.circuit.calm_at(), Some(at(100 + 4000)));
    bank.circuit.is_calm();
    assert!(!bank.circuit.fails() && bank.circuit.refuses());
    assert!((0..32).all(|asker| bank.admit(asker, at(4100))));
    assert!(!bank.circuit.fails());
    bank.fail(1, 0, 4101);
    assert!(bank.circuit.fails());
    (2..19).for_each(|asker| bank.well(asker, 0, 4102));
    assert!(!bank.circuit.refuses());
    // Nor where a round of trials was left alone.
    let mut bank = Bank::broken();
    assert!(bank.admit(7, at(100)));
    bank.fail(7, 0, 150);
    assert_eq!(bank.circuit.calm_at(), Some(at(200 + 4000)));
    assert!(bank.circuit.fails());
    bank.circuit.is_calm();
    assert!(!bank.circuit.fails() && bank.circuit.calm_at().is_none());
    assert!((0..32).all(|asker| bank.admit(asker, at(4200))));
}
