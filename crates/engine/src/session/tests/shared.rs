//! Sessions that began on other machines.

use super::*;
use crate::session::SessionRules;
use std::num::NonZeroU32;

fn shared(capacity: u32) -> SessionRules {
    SessionRules {
        is_shared: true,
        ..SessionRules::new(capacity, EXACT)
    }
}

#[test]
fn one_that_began_elsewhere_is_found_beside_one_in_its_slot() {
    let array = SessionArray::with(shared(8));
    let own = array.create(1, random(1), 0).unwrap();
    let foreign = SessionId::new(own.slot, random(2));
    assert_eq!(array.lookup(&foreign, 0), None);
    let here = array.adopt(&foreign, 2, 0).expect("there is room");
    assert_ne!(here.slot, own.slot);
    assert_eq!(array.adopt(&foreign, 2, 0), Some(here));
    assert_eq!(array.live(), 2);
    let mut users = [None; 3];
    let ids = [Some(own), Some(foreign), Some(here)];
    array.lookup_batch(&ids, 1, &mut users);
    assert_eq!(users, [Some(1), Some(2), Some(2)]);
    assert_eq!(array.here(&foreign), Some(here));
    assert_eq!(array.user_of(&foreign), Some(2));
    assert!(array.destroy(&foreign) && !array.destroy(&foreign));
    assert_eq!(array.lookup(&foreign, 1), None);
    assert_eq!(array.lookup(&own, 1), Some(1));
    assert_eq!(array.live(), 1);
    // An array of one machine alone adopts none.
    let alone = SessionArray::new(8, EXACT);
    assert_eq!(alone.adopt(&foreign, 2, 0), None);
}

#[test]
fn what_has_expired_here_and_was_used_elsewhere_goes_on() {
    let array = SessionArray::with(shared(4));
    let own = array.create(1, random(1), 0).unwrap();
    let late = 10 * EXACT;
    assert_eq!(array.lookup(&own, late), None);
    assert_eq!(array.adopt(&own, 1, late), Some(own));
    assert_eq!(array.lookup(&own, late + EXACT), Some(1));
}

#[test]
fn it_is_confirmed_for_the_session_that_it_was() {
    let array = SessionArray::with(shared(1));
    let first = array.create(1, random(1), 0).unwrap();
    assert!(!array.is_confirmed(&first, 0));
    array.confirm(&first, 7);
    assert!(array.is_confirmed(&first, 6) && !array.is_confirmed(&first, 7));
    assert!(array.destroy(&first));
    let second = array.create(1, random(2), 0).unwrap();
    assert!(!array.is_confirmed(&first, 0) && !array.is_confirmed(&second, 0));
}

#[test]
fn a_full_array_adopts_none_and_what_is_over_makes_room() {
    let array = SessionArray::with(shared(64));
    let foreign = |n: u64| SessionId::new(7, random(n));
    for n in 0..64 {
        assert!(array.adopt(&foreign(n), 1, 0).is_some(), "{n}");
    }
    assert_eq!(array.adopt(&foreign(64), 1, 0), None);
    assert!((0..64).all(|n| array.lookup(&foreign(n), 1).is_some()));
    for round in 1..50 {
        for n in 0..64 {
            assert!(array.destroy(&foreign(64 * (round - 1) + n)));
            assert!(array.adopt(&foreign(64 * round + n), 1, 0).is_some());
        }
    }
    assert_eq!(array.live(), 64);
}

#[test]
fn sign_ins_beyond_the_limit_tell_what_has_ended_and_adopting_ends_nothing() {
    let array = SessionArray::with(SessionRules {
        per_user_max: NonZeroU32::new(2),
        ..shared(16)
    });
    for n in 0..5 {
        assert!(array.adopt(&SessionId::new(3, random(n)), 7, 0).is_some());
    }
    assert_eq!(array.live(), 5);
    let mut ended = Vec::new();
    let mut end = |id: SessionId| ended.push(id.secret());
    array.create_for(7, random(9), 0, &mut end).unwrap();
    assert_eq!(array.live(), 2);
    assert_eq!(ended, [0, 1, 2, 3].map(random));
    // Those that have expired here may be in use elsewhere.
    ended.clear();
    let mut end = |id: SessionId| ended.push(id.secret());
    array
        .create_for(7, random(10), 10 * EXACT, &mut end)
        .unwrap();
    assert_eq!((array.live(), ended), (2, Vec::new()));
}

#[test]
fn what_has_ended_here_is_not_brought_back_by_what_was_asked_before() {
    let array = SessionArray::with(shared(4));
    let foreign = SessionId::new(0, random(2));
    let here = array.adopt(&foreign, 2, 0).expect("there is room");
    assert!(!array.has_ended(&foreign) && array.lookup(&here, 0) == Some(2));
    assert!(array.end(&here));
    // The store has answered what was asked of it before.
    array.adopt(&foreign, 2, 1);
    assert!(array.has_ended(&foreign));
    assert_eq!((array.lookup(&foreign, 1), array.live()), (None, 0));
    // It does not take the end: all stays as it was.
    array.go_on(&foreign);
    let again = array.adopt(&foreign, 2, 2);
    assert!(!array.has_ended(&foreign));
    assert_eq!(array.lookup(&again.expect("there is room"), 2), Some(2));
    // Others are nobody's matter.
    assert!(array.end(&foreign));
    let other = SessionId::new(0, random(3));
    assert!(array.adopt(&other, 3, 3).is_some() && !array.has_ended(&other));
}

#[test]
fn what_has_ended_for_another_is_not_brought_back_either() {
    let array = SessionArray::with(SessionRules {
        per_user_max: NonZeroU32::new(1),
        ..shared(8)
    });
    let foreign = SessionId::new(3, random(1));
    assert!(array.adopt(&foreign, 7, 0).is_some());
    let mut ended = Vec::new();
    let mut end = |id: SessionId| ended.push(id);
    let own = array.create_for(7, random(2), 0, &mut end).unwrap();
    let [ended] = ended[..] else {
        panic!("it has one");
    };
    // The store has answered what was asked of it before.
    array.adopt(&foreign, 7, 1);
    assert!(array.has_ended(&foreign) && !array.has_ended(&own));
    assert_eq!((array.lookup(&foreign, 1), array.live()), (None, 1));
    // It does not take the end.
    array.go_on(&ended);
    assert!(array.adopt(&foreign, 7, 2).is_some() && !array.has_ended(&foreign));
    // What has expired here may go on elsewhere.
    let late = 10 * EXACT;
    array.create(7, random(3), late).unwrap();
    assert!(!array.has_ended(&foreign) && !array.has_ended(&own));
}

#[test]
fn of_one_millisecond_what_was_asked_first_is_older() {
    let array = SessionArray::with(shared(4));
    let id = array.adopt(&SessionId::new(3, random(1)), 7, 0).unwrap();
    // Before a change begins, while it is under way, and when the store has it: all at 30.
    let before = array.asks(&id, 30);
    let mark = array.changes(&id, 110);
    let meanwhile = array.asks(&id, 30);
    array.changed(&id, mark, 30);
    let behind = array.asks(&id, 30);
    let is_newer_here = [before, meanwhile, behind].map(|asked| array.is_confirmed(&id, asked));
    assert_eq!(is_newer_here, [true, true, false]);
    // Of what nothing is known here the store's word counts.
    let unknown = SessionId::new(3, random(2));
    let asked = array.asks(&unknown, 0);
    assert!(!array.is_confirmed(&unknown, asked));
}

#[test]
fn what_is_changed_here_is_newer_than_what_was_asked_for_before() {
    let array = SessionArray::with(shared(4));
    let id = array.adopt(&SessionId::new(3, random(1)), 7, 0).unwrap();
    array.confirm(&id, 10);
    array.confirm(&id, 5);
    assert!(
        array.is_confirmed(&id, 9),
        "no look-up that is late makes it older"
    );
    assert_eq!(array.changes(&id, 110), 110);
    array.confirm(&id, 20);
    assert!(
        array.is_confirmed(&id, 109),
        "the store may not have it yet"
    );
    array.changed(&id, 110, 31);
    assert!(array.is_confirmed(&id, 30) && !array.is_confirmed(&id, 31));
    // Of two changes the later counts.
    array.changes(&id, 140);
    array.changes(&id, 150);
    array.changed(&id, 140, 45);
    assert!(array.is_confirmed(&id, 149));
    array.changed(&id, 150, 50);
    assert!(!array.is_confirmed(&id, 50));
    // Also where they were made in one millisecond, and whichever the store has first.
    let marks = [(); 2].map(|()| array.changes(&id, 160));
    assert!(marks[0] < marks[1], "{marks:?}");
    array.changed(&id, marks[0], 55);
    assert!(array.is_confirmed(&id, 159), "the later is under way");
    array.changed(&id, marks[1], 56);
    assert!(array.is_confirmed(&id, 55) && !array.is_confirmed(&id, 56));
    // Nor does one that is late end what began when the later was done, or had failed.
    let [first, second] = [(); 2].map(|()| array.changes(&id, 170));
    array.changed(&id, second, 60);
    array.doubt(&id);
    let third = array.changes(&id, 170);
    array.changed(&id, first, 61);
    assert!(third > second && array.is_confirmed(&id, 169));
    array.doubt(&id);
    assert!(!array.is_confirmed(&id, 0));
    array.changes(&id, u64::MAX);
    assert!(array.is_confirmed(&id, 1 << 39));
}
