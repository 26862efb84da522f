//! Several streams at the same time.

use crate::device::{Device, EXACT, ORDERS, random};
use rhythm_engine::session::{Full, Millis, SessionId};
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::sessions::DeviceSessions;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

/// Streams log cohorts in, look them up and out at the same time, in an array too small for them.
/// Each knows what its own sessions must answer; ids that are no more are tried as well.
#[test]
fn streams_never_see_the_sessions_of_another() {
    const STREAMS: u64 = 3;
    const ROUNDS: u64 = 250;
    const CAPACITY: u32 = 200;
    for order in ORDERS {
        let gpu = Emulated::new(order);
        let sessions = DeviceSessions::new(&gpu, CAPACITY, 1000).unwrap();
        let clock = AtomicU64::new(0);
        let barrier = Barrier::new(STREAMS as usize);
        let (refused, created) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for stream in 0..STREAMS {
                let (gpu, sessions, clock, barrier) = (&gpu, &sessions, &clock, &barrier);
                let (refused, created) = (&refused, &created);
                scope.spawn(move || {
                    let device = Device::new(gpu, sessions);
                    barrier.wait();
                    let mut mine: Vec<(Option<SessionId>, i64)> = Vec::new();
                    let mut gone: Vec<Option<SessionId>> = Vec::new();
                    for round in 0..ROUNDS {
                        let dice = random(stream << 32 | round) as u64;
                        let now = clock.fetch_add(dice & 3, Ordering::Relaxed);
                        let lanes = (dice >> 8) % 90;
                        match dice >> 32 & 3 {
                            0 | 1 => {
                                let user = |lane: u64| (stream << 48 | round << 16 | lane) as i64;
                                let wishes: Vec<_> = (0..lanes)
                                    .map(|lane| Some((user(lane), random(user(lane) as u64))))
                                    .collect();
                                let made = device.create(&wishes, now);
                                for (made, wish) in made.into_iter().zip(wishes) {
                                    match made {
                                        Ok(id) => mine.push((id, wish.unwrap().0)),
                                        Err(Full) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                                    }
                                }
                                created.fetch_add(lanes, Ordering::Relaxed);
                            }
                            2 => {
                                let left = mine.len() - mine.len().min(lanes as usize);
                                let ended: Vec<_> = mine.drain(left..).map(|(id, _)| id).collect();
                                device.destroy(&ended);
                                gone.extend(ended);
                            }
                            _ => device.sweep(now, 30),
                        }
                        let (ids, users): (Vec<_>, Vec<_>) =
                            mine.iter().map(|(id, user)| (*id, Some(*user))).unzip();
                        assert_eq!(device.lookup(&ids, now), users);
                        let last = &gone[gone.len() - gone.len().min(200)..];
                        assert!(device.lookup(last, now).iter().all(Option::is_none));
                        device.destroy(last);
                    }
                    let ids: Vec<_> = mine.iter().map(|(id, _)| *id).collect();
                    device.destroy(&ids);
                });
            }
        });
        // It would show little if it never came to this.
        assert!(refused.into_inner() > 0 && created.into_inner() > u64::from(CAPACITY));
        // No slot was lost, and none is free twice.
        assert_eq!(sessions.live().unwrap(), 0);
        let device = Device::new(&gpu, &sessions);
        let now = clock.load(Ordering::Relaxed);
        let ids = device.create_all(0..i64::from(CAPACITY), now);
        let slots: HashSet<_> = ids.iter().flatten().map(SessionId::slot).collect();
        assert_eq!(slots.len(), CAPACITY as usize);
        assert_eq!(device.create(&[Some((0, 0))], now), [Err(Full)]);
    }
}

/// Sessions expire while streams log in and use them: nobody is thrown out before the time, and
/// nobody's session is another's.
#[test]
fn streams_take_over_what_expires_and_nothing_else() {
    const STREAMS: u64 = 3;
    const CAPACITY: u32 = 64;
    const TIMEOUT: Millis = 100;
    let gpu = Emulated::new(LaneOrder::Shuffled(3));
    let sessions = DeviceSessions::new(&gpu, CAPACITY, TIMEOUT).unwrap();
    let clock = AtomicU64::new(0);
    let expired = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for stream in 0..STREAMS {
            let (gpu, sessions, clock, expired) = (&gpu, &sessions, &clock, &expired);
            scope.spawn(move || {
                let device = Device::new(gpu, sessions);
                // With the time of the last use.
                let mut mine: Vec<(Option<SessionId>, i64, Millis)> = Vec::new();
                for round in 0..400u64 {
                    let dice = random(7 << 40 | stream << 32 | round) as u64;
                    let now = clock.fetch_add(dice & 7, Ordering::Relaxed);
                    let user = |lane: u64| (stream << 48 | round << 16 | lane) as i64;
                    let wishes: Vec<_> = (0..dice >> 8 & 15)
                        .map(|lane| Some((user(lane), random(user(lane) as u64))))
                        .collect();
                    let made = device.create(&wishes, now);
                    let made = made
                        .into_iter()
                        .zip(wishes)
                        .filter_map(|(made, wish)| Some((made.ok()?, wish?.0, now)));
                    mine.extend(made);
                    // Two of three are left alone, to expire.
                    let (mut used, left): (Vec<_>, Vec<_>) = mine
                        .drain(..)
                        .partition(|(_, user, used)| user % 3 == 0 || now - used > 2 * TIMEOUT);
                    mine = left;
                    let ids: Vec<_> = used.iter().map(|(id, ..)| *id).collect();
                    let found = device.lookup(&ids, now);
                    // Others may have read a later time meanwhile.
                    let latest = clock.load(Ordering::Relaxed);
                    for ((_, user, last), found) in used.iter_mut().zip(&found) {
                        match found {
                            Some(found) => assert_eq!(found, user),
                            None => {
                                assert!(latest - *last > TIMEOUT, "a live user was thrown out");
                                expired.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        *last = now;
                    }
                    mine.extend(
                        used.into_iter()
                            .zip(found)
                            .filter(|(_, found)| found.is_some())
                            .map(|(own, _)| own),
                    );
                }
            });
        }
    });
    assert!(expired.into_inner() > 100);
    let device = Device::new(&gpu, &sessions);
    device.sweep(clock.load(Ordering::Relaxed) + 1000, u32::MAX);
    assert_eq!(device.live(), 0);
    let ids = device.create_all(0..i64::from(CAPACITY), 0);
    let slots: HashSet<_> = ids.iter().flatten().map(SessionId::slot).collect();
    assert_eq!(slots.len(), CAPACITY as usize);
}

/// Ids are looked up while the sessions they name end and others begin in the same slots: an answer
/// is the id's own user or none.
#[test]
fn a_lookup_never_mixes_two_sessions_of_a_slot() {
    const CAPACITY: i64 = 4;
    let gpu = Emulated::new(LaneOrder::Shuffled(9));
    let sessions = DeviceSessions::new(&gpu, CAPACITY as u32, EXACT).unwrap();
    let shared: Mutex<Vec<(Option<SessionId>, i64)>> = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (gpu, sessions, shared, is_over, found) =
                (&gpu, &sessions, &shared, &is_over, &found);
            scope.spawn(move || {
                let device = Device::new(gpu, sessions);
                while !is_over.load(Ordering::Relaxed) {
                    let now = shared.lock().unwrap().clone();
                    let lanes: Vec<_> = now.iter().copied().cycle().take(50 * now.len()).collect();
                    let (ids, users): (Vec<_>, Vec<_>) = lanes.into_iter().unzip();
                    for (got, user) in device.lookup(&ids, 0).into_iter().zip(users) {
                        if let Some(got) = got {
                            assert_eq!(got, user);
                            found.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let device = Device::new(&gpu, &sessions);
        for round in 0..4000 {
            let users = round * CAPACITY..(round + 1) * CAPACITY;
            let ids = device.create_all(users.clone(), 0);
            *shared.lock().unwrap() = ids.iter().copied().zip(users).collect();
            device.destroy(&ids);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(found.into_inner() > 0);
    assert_eq!(sessions.live().unwrap(), 0);
}

/// Sessions are used in their last moment while another stream, whose clock is a little ahead,
/// looks for expired ones: each is either used, and then it stays, or gone.
#[test]
fn a_session_that_was_just_used_does_not_expire() {
    const CAPACITY: u32 = 96;
    let gpu = Emulated::new(LaneOrder::Shuffled(1));
    let sessions = DeviceSessions::new(&gpu, CAPACITY, EXACT).unwrap();
    let sessions = sessions.with_search(CAPACITY);
    let barrier = Barrier::new(2);
    let (mut used, mut gone) = (0, 0);
    for round in 0..400 {
        let start = round * 1000;
        let device = Device::new(&gpu, &sessions);
        let ids = device.create_all(0..i64::from(CAPACITY), start);
        let (found, created) = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let device = Device::new(&gpu, &sessions);
                let wishes: Vec<_> = (0..i64::from(CAPACITY))
                    .map(|user| Some((user - 1000, random(user as u64 + 1000))))
                    .collect();
                barrier.wait();
                if round % 2 == 0 {
                    device.sweep(start + EXACT + 1, CAPACITY);
                    return Vec::new();
                }
                let created = device.create(&wishes, start + EXACT + 1);
                created.into_iter().filter_map(Result::ok).collect()
            });
            barrier.wait();
            let found = device.lookup(&ids, start + EXACT);
            (found, other.join().unwrap())
        });
        assert_eq!(device.lookup(&ids, start + EXACT + 1), found);
        used += found.iter().flatten().count();
        gone += found.iter().filter(|user| user.is_none()).count();
        device.destroy(&ids);
        device.destroy(&created);
        assert_eq!(sessions.live().unwrap(), 0);
    }
    assert!(used > 0 && gone > 0, "{used} {gone}");
}
