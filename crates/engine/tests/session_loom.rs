//! Models of the session array, in which loom tries every interleaving of a few threads (up to a
//! bound on preemptions), with every value a weakly ordered memory may show them.
//!
//! The files of `src/session` are compiled once more here, with loom's atomics in place of the
//! processor's, so the models run with the ordinary tests: `cargo test -p rhythm-engine --test
//! session_loom`. What they assert must hold for all interleavings; a missing check in the array
//! shows as a failure with the interleaving that does it.
#![allow(dead_code, unreachable_pub, missing_docs)]

#[path = "../src/session/array.rs"]
mod array;
#[path = "session_loom/atomic.rs"]
mod atomic;
#[path = "../src/session/fields.rs"]
mod fields;
#[path = "../src/session/free.rs"]
mod free;
#[path = "../src/session/id.rs"]
mod id;
#[path = "../src/session/shared.rs"]
mod shared;
#[path = "../src/session/slot.rs"]
mod slot;
#[path = "../src/session/users.rs"]
mod users;

use array::{Full, SessionArray, SessionRules};
use fields::FieldStore;
use free::FreeList;
use id::SessionId;
use loom::sync::Arc;
use loom::thread;

/// Idle timeout in the models: its tick is 1 ms, and a session used at 0 is alive at 1 and has
/// expired at 2.
const TIMEOUT: u64 = 1;

/// Runs `model` in every interleaving with at most `preemptions` switches away from a thread that
/// could have gone on. Most errors between threads need one or two.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn array(capacity: u32) -> Arc<SessionArray> {
    Arc::new(SessionArray::new(capacity, TIMEOUT))
}

/// Checks that all slots can be taken, each once, after everything in them has expired.
fn assert_intact(array: &SessionArray) {
    let ids: Vec<_> = (0..array.capacity() as u128)
        .map(|n| array.create(n as i64, 1000 + n, 100).expect("a lost slot"))
        .collect();
    for (user, id) in ids.iter().enumerate() {
        assert_eq!(array.lookup(id, 100), Some(user as i64));
    }
    assert_eq!(array.create(-1, 0, 100), Err(Full), "a slot listed twice");
}

#[test]
fn an_old_id_never_finds_the_next_session() {
    check(3, || {
        let array = array(1);
        let old = array.create(1, 0x1_0000_0000_0000_0001, 0).unwrap();
        let other = array.clone();
        let reader = thread::spawn(move || {
            let found = other.lookup(&old, 0);
            assert!(found.is_none() || found == Some(1), "{found:?}");
            found
        });
        assert!(array.destroy(&old));
        // It differs from the old secret in one half only: a mix of both would be accepted.
        let new = array.create(2, 0x1_0000_0000_0000_0002, 0).unwrap();
        assert_eq!(array.lookup(&new, 0), Some(2));
        reader.join().unwrap();
        assert_eq!(array.lookup(&old, 0), None);
    });
}

#[test]
fn a_new_id_never_finds_the_session_before() {
    check(3, || {
        let array = array(1);
        let old = array.create(1, 0x1_0000_0000_0000_0001, 0).unwrap();
        // What the next id will be; outside of this model nobody could know.
        let new = SessionId::new(0, 0x1_0000_0000_0000_0002);
        let other = array.clone();
        let reader = thread::spawn(move || {
            let found = other.lookup(&new, 0);
            assert!(found.is_none() || found == Some(2), "{found:?}");
        });
        assert!(array.destroy(&old));
        assert_eq!(array.create(2, 0x1_0000_0000_0000_0002, 0), Ok(new));
        reader.join().unwrap();
    });
}

#[test]
fn a_use_that_comes_late_leaves_the_next_session_alone() {
    check(3, || {
        let array = array(1);
        let old = array.create(1, 1, 0).unwrap();
        let other = array.clone();
        // Its clock is ahead: the use would keep the next session alive for longer than it ought to
        // be.
        let reader = thread::spawn(move || other.lookup(&old, 1));
        assert!(array.destroy(&old));
        let new = array.create(2, 2, 0).unwrap();
        assert!(matches!(reader.join().unwrap(), None | Some(1)));
        assert_eq!(array.lookup(&new, 2), None);
        assert_eq!(array.sweep(2, 1), 1);
    });
}

#[test]
fn a_session_is_destroyed_once() {
    check(3, || {
        let array = array(1);
        let id = array.create(1, 1, 0).unwrap();
        let other = array.clone();
        let rival = thread::spawn(move || other.destroy(&id));
        let mine = array.destroy(&id);
        assert!(mine ^ rival.join().unwrap(), "both or none");
        assert_eq!(array.lookup(&id, 0), None);
        assert_intact(&array);
    });
}

#[test]
fn an_expired_slot_is_taken_over_once() {
    check(3, || {
        let array = array(1);
        let old = array.create(1, 1, 0).unwrap();
        let other = array.clone();
        let rival = thread::spawn(move || other.create(2, 2, 2));
        let mine = array.create(3, 3, 2);
        let theirs = rival.join().unwrap();
        assert!(mine.is_ok() ^ theirs.is_ok(), "both or none");
        let user = if mine.is_ok() { 3 } else { 2 };
        let id = mine.or(theirs).unwrap();
        assert_eq!(array.lookup(&id, 2), Some(user));
        assert_eq!(array.lookup(&old, 2), None);
    });
}

#[test]
fn a_user_just_served_is_not_thrown_out() {
    check(3, || {
        let array = array(1);
        let id = array.create(1, 1, 0).unwrap();
        let other = array.clone();
        let login = thread::spawn(move || other.create(2, 2, 2));
        let served = array.lookup(&id, 1);
        // Whoever was first: the user, and the slot is in use; or the login, and the user has none.
        match (served, login.join().unwrap()) {
            (Some(1), Err(Full)) => assert_eq!(array.lookup(&id, 2), Some(1)),
            (None, Ok(new)) => assert_eq!(array.lookup(&new, 2), Some(2)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_sweep_and_a_login_share_expired_slots() {
    check(2, || {
        let array = array(2);
        let first = array.create(1, 1, 0).unwrap();
        let second = array.create(2, 2, 0).unwrap();
        let other = array.clone();
        let sweeper = thread::spawn(move || other.sweep(2, 2));
        // Two slots have expired, and the sweeper holds one at a time.
        let new = array.create(3, 3, 2).unwrap();
        assert!(matches!(sweeper.join().unwrap(), 1 | 2));
        assert_eq!(array.lookup(&first, 2), None);
        assert_eq!(array.lookup(&second, 2), None);
        assert_eq!(array.lookup(&new, 2), Some(3));
        array.destroy(&new);
        assert_intact(&array);
    });
}

#[test]
fn logins_get_different_slots() {
    check(2, || {
        let array = array(2);
        let logins = [1, 2].map(|user| {
            let array = array.clone();
            thread::spawn(move || array.create(user, user as u128, 0).unwrap())
        });
        let [first, second] = logins.map(|login| login.join().unwrap());
        assert_eq!(array.create(3, 3, 0), Err(Full));
        assert_eq!(array.lookup(&first, 0), Some(1));
        assert_eq!(array.lookup(&second, 0), Some(2));
    });
}

#[test]
fn a_logout_makes_room_for_a_login() {
    check(2, || {
        let array = array(2);
        let leaving = array.create(1, 1, 0).unwrap();
        let staying = array.create(2, 2, 0).unwrap();
        let other = array.clone();
        let logout = thread::spawn(move || assert!(other.destroy(&leaving)));
        let during = array.create(3, 3, 0);
        logout.join().unwrap();
        let after = array.create(4, 4, 0);
        assert!(during.is_ok() ^ after.is_ok(), "one slot became free");
        assert_eq!(array.lookup(&staying, 0), Some(2));
        assert_eq!(array.lookup(&leaving, 0), None);
    });
}

#[test]
fn a_free_slot_is_found_wherever_it_moves() {
    check(3, || {
        // Two stacks of one slot. Users 0 and 1 start at different ones.
        let shared = Arc::new(FreeList::new(2, 2));
        let (list, slots) = &*shared;
        assert_eq!(list.take(slots, 0), Some(0));
        let other = shared.clone();
        let mover = thread::spawn(move || {
            other.0.give(&other.1, 0);
            other.0.take(&other.1, 1)
        });
        // Slot 1 is free until slot 0 is, which this may have found taken just before.
        let mine = list.take(slots, 0).expect("there was always a free slot");
        let theirs = mover.join().unwrap().expect("two slots, two takers");
        assert_ne!(mine, theirs);
    });
}

#[test]
fn the_free_list_hands_out_no_slot_twice() {
    check(3, || {
        // One stack 0 -> 1 -> 2. Without tags a taker that has read "0, then 1" succeeds after 0
        // and 1 were taken and 0 returned, and leaves the taken 1 as the head.
        let shared = Arc::new(FreeList::new(3, 1));
        let other = shared.clone();
        let taker = thread::spawn(move || other.0.take(&other.1, 0));
        let (list, slots) = &*shared;
        let mut taken: Vec<_> = (0..2).filter_map(|_| list.take(slots, 0)).collect();
        list.give(slots, taken.swap_remove(0));
        taken.extend(taker.join().unwrap());
        taken.extend((0..2).filter_map(|_| list.take(slots, 0)));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
        assert_eq!(list.count(), 0);
    });
}

/// An array in which each user may have one session.
fn one_each(capacity: u32) -> Arc<SessionArray> {
    Arc::new(SessionArray::with(SessionRules {
        per_user_max: core::num::NonZeroU32::new(1),
        ..SessionRules::new(capacity, TIMEOUT)
    }))
}

#[test]
fn two_sign_ins_at_once_leave_a_user_one_session() {
    check(2, || {
        let array = one_each(2);
        let other = array.clone();
        let rival = thread::spawn(move || other.create(7, 1, 0).unwrap());
        let mine = array.create(7, 2, 0).unwrap();
        let theirs = rival.join().unwrap();
        let left = [mine, theirs].map(|id| array.lookup(&id, 0).is_some());
        assert!(left[0] ^ left[1], "both or none: {left:?}");
        assert_eq!(array.live(), 1);
        assert_intact(&array);
    });
}

#[test]
fn a_sign_in_and_a_sign_out_free_a_slot_once() {
    check(2, || {
        let array = one_each(2);
        let old = array.create(7, 1, 0).unwrap();
        let other = array.clone();
        let leaver = thread::spawn(move || other.destroy(&old));
        let new = array.create(7, 2, 0).unwrap();
        leaver.join().unwrap();
        assert_eq!(array.lookup(&old, 0), None);
        assert_eq!(array.lookup(&new, 0), Some(7));
        assert_eq!(array.live(), 1);
        assert_intact(&array);
    });
}

#[test]
fn fields_are_read_as_one_change_has_left_them() {
    check(2, || {
        let array = array(1);
        let store = Arc::new(FieldStore::new(1, 2));
        let id = array.create(1, 0x1_0000_0000_0000_0001, 0).unwrap();
        let (others, its) = (array.clone(), store.clone());
        let writer = thread::spawn(move || {
            its.write(&id, &[(0, 7), (1, 7)], || others.has(&id));
        });
        let mut words = [9; 2];
        store.read(&id, &mut words);
        assert!(words == [0; 2] || words == [7; 2], "{words:?}");
        writer.join().unwrap();
        store.read(&id, &mut words);
        assert_eq!(words, [7; 2]);
    });
}

#[test]
fn a_change_that_is_late_leaves_the_next_session_as_it_is() {
    check(2, || {
        let array = array(1);
        let store = Arc::new(FieldStore::new(1, 1));
        let old = array.create(1, 0x1_0000_0000_0000_0001, 0).unwrap();
        let (others, its) = (array.clone(), store.clone());
        let late = thread::spawn(move || its.write(&old, &[(0, 7)], || others.has(&old)));
        assert!(array.destroy(&old));
        let new = array.create(2, 0x2_0000_0000_0000_0002, 0).unwrap();
        let mut word = [9];
        store.read(&new, &mut word);
        assert_eq!(word, [0], "it begins empty");
        store.write(&new, &[(0, 5)], || array.has(&new));
        late.join().unwrap();
        store.read(&new, &mut word);
        assert_eq!(word, [5]);
    });
}

#[test]
fn two_changes_at_once_have_marks_of_their_own() {
    check(2, || {
        let array = Arc::new(SessionArray::with(SessionRules {
            is_shared: true,
            ..SessionRules::new(1, TIMEOUT)
        }));
        let id = array.create(7, 1, 0).unwrap();
        let other = array.clone();
        let rival = thread::spawn(move || other.changes(&id, 100));
        let mine = array.changes(&id, 100);
        let theirs = rival.join().unwrap();
        assert_ne!(mine, theirs);
        // What the store says of the earlier ends nothing.
        array.changed(&id, mine.min(theirs), 5);
        assert!(array.is_confirmed(&id, 99));
        array.changed(&id, mine.max(theirs), 6);
        assert!(array.is_confirmed(&id, 5) && !array.is_confirmed(&id, 6));
    });
}
