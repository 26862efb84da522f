//! Histories of calls against a plain map, and threads against each other.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

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
