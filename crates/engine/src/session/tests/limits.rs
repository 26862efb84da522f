//! How many sessions a user has, and how long one lives that is never used.

use super::*;
use crate::session::SessionRules;
use std::num::NonZeroU32;

/// Rules under which a user may have some sessions.
fn limited(capacity: u32, per_user: u32) -> SessionRules {
    SessionRules {
        per_user_max: NonZeroU32::new(per_user),
        ..SessionRules::new(capacity, EXACT)
    }
}

#[test]
fn a_user_with_too_many_sessions_loses_the_oldest_and_nobody_else_does() {
    let array = SessionArray::with(limited(1000, 3));
    let other = array.create(8, random(8), 0).unwrap();
    let ids: Vec<_> = (0..500u64)
        .map(|n| {
            let id = array.create(7, random(100 + n), 0).unwrap();
            assert!(array.live() <= 4, "{n}");
            id
        })
        .collect();
    for (nth, id) in ids.iter().enumerate() {
        assert_eq!(array.lookup(id, 1).is_some(), nth >= 497, "{nth}");
    }
    assert_eq!(array.lookup(&other, 1), Some(8));
    assert_eq!(array.replaced(), 497);
    // Of those that are left, an expired one goes first, however young it is.
    assert!(array.lookup(&ids[497], 80).is_some());
    assert!(array.lookup(&ids[498], 80).is_some());
    array.create(7, random(1), 1 + EXACT + 1).unwrap();
    assert_eq!(array.lookup(&ids[497], 1 + EXACT + 1), Some(7));
    assert_eq!(array.lookup(&ids[498], 1 + EXACT + 1), Some(7));
    // Who has signed out has room again.
    assert!(array.destroy(&ids[497]));
    array.create(7, random(2), 110).unwrap();
    assert_eq!(array.lookup(&ids[498], 110), Some(7));
}

#[test]
fn sessions_of_many_users_count_each_for_its_own() {
    let array = SessionArray::with(limited(4096, 2));
    let mut ids = Vec::new();
    for round in 0..5u64 {
        for user in 0..2000 {
            let id = array.create(user, random(round << 32 | user as u64), 0);
            ids.push((round, user, id.unwrap()));
        }
    }
    assert_eq!(array.live(), 4000);
    for (round, user, id) in ids {
        let expected = (round >= 3).then_some(user);
        assert_eq!(array.lookup(&id, 1), expected, "{round} of {user}");
    }
}

#[test]
fn a_session_never_used_has_a_short_life_and_a_used_one_the_long() {
    let rules = SessionRules {
        unused_timeout: 10,
        ..SessionRules::new(3, EXACT)
    };
    let array = SessionArray::with(rules);
    let ids: Vec<_> = (0..3u8)
        .map(|n| array.create(n.into(), random(n.into()), 0).unwrap())
        .collect();
    assert_eq!(array.lookup(&ids[0], 0), Some(0), "used in its first tick");
    assert_eq!(array.lookup(&ids[1], 10), Some(1));
    assert_eq!(array.create(9, random(9), 10), Err(Full));
    assert_eq!(array.lookup(&ids[2], 11), None);
    assert_eq!(array.sweep(11, 3), 1);
    assert!(array.create(9, random(9), 11).is_ok());
    // What a refusal learned is not too late for the one just made.
    assert_eq!(array.create(4, random(4), 21), Err(Full));
    assert!(array.create(4, random(4), 22).is_ok());
    assert_eq!(array.lookup(&ids[0], EXACT), Some(0));
    assert_eq!(array.lookup(&ids[1], 10 + EXACT), Some(1));
}

#[test]
fn the_reserve_is_for_users_who_have_no_session() {
    let rules = SessionRules {
        reserve: 4,
        ..limited(16, 15)
    };
    let array = SessionArray::with(rules);
    // It stops short of the reserve, and is down to one session then.
    for n in 0..100 {
        array.create(7, random(n), 0).unwrap();
        assert!(array.live() <= 13, "{n}");
    }
    let mut others = Vec::new();
    for user in 100.. {
        match array.create(user, random(user as u64), 0) {
            Ok(id) => others.push((user, id)),
            Err(Full) => break,
        }
    }
    assert!(others.len() >= 4, "{}", others.len());
    // Full as it is, who has a session can have another for it.
    let (user, old) = others[0];
    let new = array.create(user, random(1), 0).unwrap();
    assert_eq!(array.lookup(&old, 0), None);
    assert_eq!(array.lookup(&new, 0), Some(user));
    for (user, id) in &others[1..] {
        assert_eq!(array.lookup(id, 0), Some(*user));
    }
}
