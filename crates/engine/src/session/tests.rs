//! Tests of the array as its users see it. What depends on how threads interleave is checked with
//! loom, in `tests/session_loom.rs`.

use super::slot::Slot;
use super::{Full, Millis, SessionArray, SessionId, SessionRules};
use proptest::prelude::*;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// A timeout whose ticks are 1 ms: it is exact.
const EXACT: Millis = 100;

/// Random enough for tests, and the same every time.
fn random(seed: u64) -> u128 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    u128::from(z) << 64 | u128::from(z.wrapping_mul(0x94d0_49bb_1331_11eb))
}

#[test]
fn a_slot_never_spans_two_cache_lines() {
    assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (32, 32));
}

#[test]
fn a_session_lives_from_create_to_destroy() {
    let array = SessionArray::new(4, EXACT);
    let id = array.create(-7, random(1), 0).unwrap();
    assert_eq!(array.lookup(&id, 1), Some(-7));
    assert_eq!(array.live(), 1);
    assert!(array.destroy(&id));
    assert_eq!(array.lookup(&id, 1), None);
    assert!(!array.destroy(&id), "there is nothing left to destroy");
    assert_eq!(array.live(), 0);
}

#[test]
fn only_the_whole_id_finds_a_session() {
    let array = SessionArray::new(2, EXACT);
    let id = array.create(1, random(1), 0).unwrap();
    for bit in 0..128 {
        let guess = SessionId::new(id.slot, random(1) ^ 1 << bit);
        assert_eq!(array.lookup(&guess, 0), None);
        assert!(!array.destroy(&guess));
    }
    for slot in [id.slot ^ 1, 2, u32::MAX] {
        let elsewhere = SessionId::new(slot, random(1));
        assert_eq!(array.lookup(&elsewhere, 0), None);
        assert!(!array.destroy(&elsewhere));
    }
    assert_eq!(array.lookup(&id, 0), Some(1));
}

#[test]
fn free_slots_answer_to_no_secret() {
    let array = SessionArray::new(1, EXACT);
    assert_eq!(array.lookup(&SessionId::new(0, 0), 0), None, "never used");
    let id = array.create(1, random(1), 0).unwrap();
    array.destroy(&id);
    assert!(!array.destroy(&id), "the secret is still there, unused");
}

#[test]
fn an_old_id_does_not_find_the_next_session_in_its_slot() {
    let array = SessionArray::new(1, EXACT);
    let old = array.create(1, random(1), 0).unwrap();
    array.destroy(&old);
    let new = array.create(2, random(2), 0).unwrap();
    assert_eq!(old.slot, new.slot);
    assert_eq!(array.lookup(&old, 0), None);
    assert!(!array.destroy(&old));
    assert_eq!(array.lookup(&new, 0), Some(2));
}

#[test]
fn sessions_expire_when_unused() {
    let array = SessionArray::new(1, EXACT);
    let id = array.create(1, random(1), 1000).unwrap();
    assert_eq!(array.lookup(&id, 1000 + EXACT), Some(1));
    assert_eq!(array.lookup(&id, 1000 + 2 * EXACT), Some(1), "it was used");
    assert_eq!(array.lookup(&id, 1001 + 3 * EXACT), None);
}

#[test]
fn expiry_is_at_most_three_percent_late_and_never_early() {
    for timeout in [0, 1, 63, 64, 127, 128, 1000, 60_000, 1_800_000, 86_400_000] {
        for start in [0, 1, 12_345, 1_700_000_000_123, u64::MAX / 2] {
            let array = SessionArray::new(1, timeout);
            let id = array.create(1, random(1), start).unwrap();
            let late = start + timeout + 2 * (timeout / 64).max(1);
            assert_eq!(array.lookup(&id, late), None, "{timeout} from {start}");
            assert_eq!(array.lookup(&id, start + timeout), Some(1), "{timeout}");
        }
    }
    let forever = SessionArray::new(1, Millis::MAX);
    let id = forever.create(1, random(1), 0).unwrap();
    assert_eq!(forever.lookup(&id, Millis::MAX), Some(1));
}

#[test]
fn a_clock_that_is_behind_neither_expires_nor_ages_a_session() {
    let array = SessionArray::new(1, EXACT);
    let id = array.create(1, random(1), 1000).unwrap();
    assert_eq!(array.lookup(&id, 990), Some(1));
    assert_eq!(array.create(2, random(2), 990), Err(Full));
    assert_eq!(array.sweep(990, 1), 0);
    assert_eq!(array.lookup(&id, 1000 + EXACT), Some(1));
}

#[test]
fn a_full_array_refuses_and_keeps_its_users() {
    for capacity in [0, 1, 2, 3, 15, 16, 17, 1000] {
        let array = SessionArray::new(capacity, EXACT);
        assert_eq!(array.capacity(), capacity as usize);
        let ids: Vec<_> = (0..capacity)
            .map(|n| array.create(n.into(), random(n.into()), 0).unwrap())
            .collect();
        assert_eq!(array.live(), capacity as usize);
        assert_eq!(array.create(-1, random(7777), EXACT), Err(Full));
        for (user, id) in ids.iter().enumerate() {
            assert_eq!(array.lookup(id, EXACT), Some(user as i64));
        }
    }
}

#[test]
fn the_one_free_slot_of_a_full_array_is_found() {
    let array = SessionArray::new(1000, EXACT);
    let mut ids: Vec<_> = (0..1000)
        .map(|n| array.create(n, random(n as u64), 0).unwrap())
        .collect();
    for (n, id) in (0..).zip(&mut ids) {
        assert!(array.destroy(id));
        *id = array.create(-n, random(5000 + n as u64), 0).unwrap();
        assert_eq!(array.create(0, random(0), 0), Err(Full));
    }
}

#[test]
fn expired_slots_are_taken_over_and_only_those() {
    let array = SessionArray::new(50, EXACT);
    let ids: Vec<_> = (0..50)
        .map(|n| array.create(n, random(n as u64), 0).unwrap())
        .collect();
    for id in ids.iter().step_by(5) {
        assert!(array.lookup(id, 60).is_some());
    }
    for n in 0..40 {
        assert!(array.create(n, random(100 + n as u64), 101).is_ok());
    }
    assert_eq!(array.create(0, random(0), 101), Err(Full));
    assert_eq!(array.create(0, random(0), 160), Err(Full));
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(array.lookup(id, 60).is_some(), n % 5 == 0);
    }
    // Those used at 60 have expired; the rest, created at 101, have not.
    for n in 0..10 {
        assert!(array.create(n, random(200 + n as u64), 161).is_ok());
    }
    assert_eq!(array.create(0, random(0), 161), Err(Full));
}

#[test]
fn after_a_refusal_expiry_is_noticed_as_soon_as_it_comes() {
    let array = SessionArray::new(3, EXACT);
    for n in 0..3u8 {
        array.create(n.into(), random(n.into()), n.into()).unwrap();
    }
    // Each refusal notes when the search is worth repeating: not too late.
    for n in 0..3 {
        assert_eq!(array.create(9, random(9), n + EXACT), Err(Full));
        assert!(array.create(9, random(9), n + EXACT + 1).is_ok());
    }
}

#[test]
fn a_session_created_by_a_clock_that_is_behind_is_not_forgotten() {
    let array = SessionArray::new(1, EXACT);
    let id = array.create(1, random(1), 1000).unwrap();
    assert_eq!(array.create(2, random(2), 1000), Err(Full));
    assert!(array.destroy(&id));
    array.create(3, random(3), 999).unwrap();
    assert!(array.create(4, random(4), 999 + EXACT + 1).is_ok());
}

#[test]
fn sweep_frees_what_expired_within_its_budget() {
    let array = SessionArray::new(100, EXACT);
    for n in 0..100 {
        array.create(n, random(n as u64), n as u64).unwrap();
    }
    assert_eq!(array.sweep(EXACT, 1000), 0);
    assert_eq!(array.live(), 100);
    // By now the sessions of 0 to 49 have expired.
    let freed: Vec<_> = (0..10).map(|_| array.sweep(EXACT + 50, 10)).collect();
    assert_eq!(freed.iter().sum::<usize>(), 50, "ten tenths are a round");
    assert!(freed.iter().all(|&freed| freed <= 10));
    assert_eq!(array.live(), 50);
    assert_eq!(array.sweep(EXACT + 50, 0), 0);
    assert_eq!(array.sweep(EXACT + 1000, usize::MAX), 50);
    assert_eq!(array.live(), 0);
    for n in 0..100 {
        assert!(array.create(n, random(n as u64), 1100).is_ok());
    }
}

#[test]
fn a_batch_answers_as_single_lookups_do() {
    let array = SessionArray::new(4096, EXACT);
    for lanes in [0, 1, 7, 16, 17, 300] {
        let ids: Vec<_> = (0..lanes)
            .map(|n: u64| match n % 4 {
                0 => None,
                1 => Some(SessionId::new(n as u32, random(n))),
                2 => Some(SessionId::new(u32::MAX, random(n))),
                _ => Some(array.create(n as i64, random(n), 0).unwrap()),
            })
            .collect();
        let mut users = vec![Some(-1); ids.len()];
        array.lookup_batch(&ids, 1, &mut users);
        for (lane, user) in users.into_iter().enumerate() {
            let single = ids[lane].and_then(|id| array.lookup(&id, 1));
            assert_eq!(user, single);
            assert_eq!(user.is_some(), lane % 4 == 3);
        }
    }
}

#[test]
fn the_text_of_an_id_is_fixed() {
    let id = SessionId::new(0x0012_abcd, 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978);
    let text = *b"0012abcd0123456789abcdef0f1e2d3c4b5a6978";
    assert_eq!(id.to_text(), text);
    assert_eq!(SessionId::parse(&text), Some(id));
    assert_eq!(format!("{id:?}"), "SessionId(slot 1223629, secret hidden)");
}

#[test]
fn nothing_but_the_text_of_an_id_is_one() {
    let text = SessionId::new(5, random(5)).to_text();
    assert!(SessionId::parse(&text).is_some());
    assert_eq!(SessionId::parse(b""), None);
    assert_eq!(SessionId::parse(&text[1..]), None);
    assert_eq!(SessionId::parse(&[&text[..], b"0"].concat()), None);
    for place in 0..text.len() {
        for byte in 0..=u8::MAX {
            let mut changed = text;
            changed[place] = byte;
            let digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert_eq!(SessionId::parse(&changed).is_some(), digit, "{byte:#x}");
        }
    }
}

/// One call in a random sequence of them.
#[derive(Clone, Debug)]
enum Call {
    Create,
    Lookup(usize),
    Destroy(usize),
    Sweep(usize),
    Wait(Millis),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => Just(Call::Create),
        4 => (0..30usize).prop_map(Call::Lookup),
        2 => (0..30usize).prop_map(Call::Destroy),
        1 => (0..8usize).prop_map(Call::Sweep),
        3 => (0..60u64).prop_map(Call::Wait),
    ]
}

proptest! {
    #[test]
    fn ids_have_one_text(slot: u32, random: u128) {
        let id = SessionId::new(slot, random);
        prop_assert_eq!(SessionId::parse(&id.to_text()), Some(id));
    }

    /// The array does what a map from ids to (user, last use) does.
    #[test]
    fn one_thread_sees_a_map(
        capacity in 1..6u32,
        start in 0..1u64 << 40,
        calls in prop::collection::vec(call(), 1..200),
    ) {
        let array = SessionArray::new(capacity, EXACT);
        let mut now = start;
        let mut ids: Vec<SessionId> = Vec::new();
        let mut model: HashMap<[u8; 40], (i64, Millis)> = HashMap::new();
        for call in calls {
            match call {
                Call::Create => {
                    let user = ids.len() as i64;
                    let created = array.create(user, random(user as u64), now);
                    let alive = model.values().filter(|(_, used)| now - used <= EXACT).count();
                    prop_assert_eq!(created.is_ok(), alive < capacity as usize);
                    if let Ok(id) = created {
                        ids.push(id);
                        model.insert(id.to_text(), (user, now));
                    }
                }
                Call::Lookup(nth) => if let Some(id) = ids.iter().nth_back(nth) {
                    let expected = model.get_mut(&id.to_text()).and_then(|(user, used)| {
                        (now - *used <= EXACT).then(|| { *used = now; *user })
                    });
                    prop_assert_eq!(array.lookup(id, now), expected);
                }
                Call::Destroy(nth) => if let Some(id) = ids.iter().nth_back(nth) {
                    let destroyed = array.destroy(id);
                    let there = model.remove(&id.to_text());
                    // Whether an expired one is still there depends on who looked.
                    match there {
                        Some((_, used)) if now - used <= EXACT => prop_assert!(destroyed),
                        Some(_) => {}
                        None => prop_assert!(!destroyed),
                    }
                }
                Call::Sweep(budget) => { array.sweep(now, budget); }
                Call::Wait(millis) => now += millis,
            }
        }
    }
}

/// Threads log in, look up and log out at random in an array too small for them. Each knows what
/// its own sessions must answer; the ids of others are tried as well, alive or long gone.
#[test]
fn threads_never_see_the_session_of_another() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 30_000;
    const CAPACITY: u32 = 24;
    const IDLE: Millis = 1000;
    let array = SessionArray::new(CAPACITY, IDLE);
    let clock = AtomicU64::new(0);
    let barrier = Barrier::new(THREADS as usize);
    let (refused, expired) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (array, clock, barrier) = (&array, &clock, &barrier);
            let (refused, expired) = (&refused, &expired);
            scope.spawn(move || {
                let user = -1 - thread as i64;
                let aside = array.create(user, random(u64::MAX - thread), 0);
                let mut aside = Some(aside.expect("there is room for one of each thread"));
                barrier.wait();
                // Mine, with the time of their last use; and ids that are no more.
                let mut mine: Vec<(SessionId, i64, Millis)> = Vec::new();
                let mut gone: Vec<SessionId> = Vec::new();
                for round in 0..ROUNDS {
                    let dice = random(thread << 32 | round) as u64;
                    let now = clock.fetch_add(u64::from(dice & 7 == 0), Ordering::Relaxed);
                    match dice >> 8 & 7 {
                        0..=2 => {
                            let user = (thread << 32 | round) as i64;
                            match array.create(user, random(user as u64), now) {
                                Ok(id) => mine.push((id, user, now)),
                                Err(Full) => {
                                    refused.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                        }
                        3 | 4 if mine.len() > 3 => {
                            let (id, ..) = mine.swap_remove(dice as usize % mine.len());
                            array.destroy(&id);
                            gone.push(id);
                        }
                        5 => {
                            array.sweep(now, 4);
                        }
                        _ => mine.retain_mut(|(id, user, used)| {
                            // Some sessions are left alone, to expire.
                            if *user % 16 == 0 && now - *used <= 2000 {
                                return true;
                            }
                            let found = array.lookup(id, now);
                            assert!(found.is_none() || found == Some(*user));
                            if found.is_none() {
                                // By the clock that others may have read while this thread slept.
                                let now = clock.load(Ordering::Relaxed);
                                assert!(now - *used > 1000, "a live user was thrown out");
                                expired.fetch_add(1, Ordering::Relaxed);
                                // It may be there still, expired.
                                array.destroy(id);
                                gone.push(*id);
                            }
                            *used = now;
                            found.is_some()
                        }),
                    }
                    // Left alone, it expires: a thread's own rounds take the clock on by more.
                    if let Some(id) = aside.take_if(|_| now > 2 * IDLE) {
                        assert_eq!(array.lookup(&id, now), None, "a dead user was let in");
                        expired.fetch_add(1, Ordering::Relaxed);
                        array.destroy(&id);
                        gone.push(id);
                    }
                    // Who takes all there is gets to the end of it.
                    if round == ROUNDS / 2 {
                        for more in 1.. {
                            let user = (thread << 32 | (ROUNDS + more)) as i64;
                            match array.create(user, random(user as u64), now) {
                                Ok(id) => mine.push((id, user, now)),
                                Err(Full) => break,
                            }
                        }
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    for id in gone.iter().rev().take(3) {
                        assert_eq!(array.lookup(id, now), None);
                        assert!(!array.destroy(id));
                    }
                }
                for (id, ..) in mine {
                    array.destroy(&id);
                }
            });
        }
    });
    let now = clock.load(Ordering::Relaxed) + 10_000;
    array.sweep(now, usize::MAX);
    assert_eq!(array.live(), 0);
    // No slot was lost, and none is in the lists twice.
    let ids: Vec<_> = (0..CAPACITY.into())
        .map(|n| array.create(n, random(n as u64), now).unwrap())
        .collect();
    assert_eq!(array.create(0, random(0), now), Err(Full));
    for (user, id) in ids.iter().enumerate() {
        assert_eq!(array.lookup(id, now), Some(user as i64));
    }
    // The test would show little if it never came to these; each thread does, once or more.
    assert!(refused.into_inner() >= THREADS && expired.into_inner() >= THREADS);
}

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
