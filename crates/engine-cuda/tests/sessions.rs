//! The device's session array does what the engine's does.
#![allow(unsafe_code)]

mod typed;

use rhythm_engine::cohort::LaneError;
use rhythm_engine::session::{Full, Millis, SessionArray, SessionId};
use rhythm_engine_cuda::abi::{LANE_ACTIVE, LANE_FAILED, LANE_FINISHED, LaneResult, SessionKey};
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::gpu::{SharedGpu, Stream};
use rhythm_engine_cuda::sessions::DeviceSessions;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use typed::Typed;

const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(5),
];

/// A timeout whose ticks are 1 ms: it is exact.
const EXACT: Millis = 100;

const CREATE: u8 = 1;
const DESTROY: u8 = 2;

/// Random enough for tests, and the same every time.
fn random(seed: u64) -> u128 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    u128::from(z) << 64 | u128::from(z.wrapping_mul(0x94d0_49bb_1331_11eb))
}

/// A device's array, used from one stream.
struct Device<'a> {
    gpu: &'a SharedGpu,
    sessions: &'a DeviceSessions,
    stream: Stream,
}

impl<'a> Device<'a> {
    fn new(gpu: &'a SharedGpu, sessions: &'a DeviceSessions) -> Device<'a> {
        let stream = gpu.stream().unwrap();
        Device {
            gpu,
            sessions,
            stream,
        }
    }

    fn key(id: &Option<SessionId>) -> SessionKey {
        id.map_or(SessionKey::NONE, SessionKey::from)
    }

    /// The users of a cohort's sessions.
    fn lookup(&self, ids: &[Option<SessionId>], now: Millis) -> Vec<Option<i64>> {
        let keys: Vec<_> = ids.iter().map(Device::key).collect();
        let keys = Typed::new(self.gpu, &keys);
        let present = Typed::new(self.gpu, &vec![-1i64; ids.len()]);
        let users = Typed::new(self.gpu, &vec![-1i64; ids.len()]);
        // SAFETY: the arrays have an item for each id and live until the stream has done it.
        unsafe {
            let lanes = ids.len() as u32;
            let (present, users) = (present.address(), users.address());
            self.sessions
                .lookup(self.stream, keys.address(), lanes, now, present, users)
                .unwrap();
        }
        self.gpu.synchronize(self.stream).unwrap();
        let found = present.items().iter().zip(users.items());
        found
            .map(|(present, user)| match *present {
                0 => {
                    assert_eq!(*user, 0);
                    None
                }
                1 => Some(*user),
                other => panic!("present is {other}"),
            })
            .collect()
    }

    /// Creates sessions for the lanes that have a user and random bits.
    fn create(
        &self,
        lanes: &[Option<(i64, u128)>],
        now: Millis,
    ) -> Vec<Result<Option<SessionId>, Full>> {
        // Those that want none have finished, are active, or have failed.
        let result = |lane: usize, wish: &Option<(i64, u128)>| LaneResult {
            outcome: match wish {
                Some(_) => LANE_FINISHED,
                None => [LANE_FINISHED, LANE_ACTIVE, LANE_FAILED + 1][lane % 3],
            },
            session: match wish {
                Some(_) => CREATE,
                None => [0, CREATE, CREATE][lane % 3],
            },
            user: wish.map_or(-99, |wish| wish.0),
            run_length: 7,
            ..LaneResult::default()
        };
        let before: Vec<_> = lanes
            .iter()
            .enumerate()
            .map(|(lane, wish)| result(lane, wish))
            .collect();
        let randoms: Vec<u64> = lanes
            .iter()
            .map(|wish| wish.map_or(0, |wish| wish.1))
            .flat_map(|bits| [bits as u64, (bits >> 64) as u64])
            .collect();
        let results = Typed::new(self.gpu, &before);
        let randoms = Typed::new(self.gpu, &randoms);
        let untouched = SessionKey {
            slot: 77,
            present: 77,
            secret: [77; 2],
        };
        let created = Typed::new(self.gpu, &vec![untouched; lanes.len()]);
        // SAFETY: the arrays have an item for each lane, two random words, and live until the stream has done it.
        unsafe {
            let count = lanes.len() as u32;
            let (randoms, created) = (randoms.address(), created.address());
            self.sessions
                .create(self.stream, results.address(), count, now, randoms, created)
                .unwrap();
        }
        self.gpu.synchronize(self.stream).unwrap();
        let lane = |lane: usize| {
            let (wish, mut result) = (lanes[lane], results.items()[lane]);
            let key = created.items()[lane];
            let is_refused = result.outcome == LANE_FAILED + LaneError::SessionsFull as u8;
            if is_refused {
                result.outcome = LANE_FINISHED;
            }
            assert_eq!(result, before[lane], "nothing else is changed");
            assert_eq!(key.present == 1, wish.is_some() && !is_refused);
            if key.present != 1 {
                assert_eq!(key, SessionKey::NONE);
            }
            if let (Some(id), Some((_, bits))) = (key.id(), wish) {
                assert_eq!(id.secret(), bits);
            }
            if is_refused {
                assert!(wish.is_some());
                return Err(Full);
            }
            Ok(key.id())
        };
        (0..lanes.len()).map(lane).collect()
    }

    /// Creates sessions of which none may be refused.
    fn create_all(
        &self,
        users: impl IntoIterator<Item = i64>,
        now: Millis,
    ) -> Vec<Option<SessionId>> {
        let wishes: Vec<_> = users
            .into_iter()
            .map(|user| Some((user, random(user as u64))))
            .collect();
        self.create(&wishes, now)
            .into_iter()
            .map(Result::unwrap)
            .collect()
    }

    /// Ends sessions; lanes that have not finished end none.
    fn destroy(&self, ids: &[Option<SessionId>]) {
        let keys: Vec<_> = ids.iter().map(Device::key).collect();
        let result = LaneResult {
            outcome: LANE_FINISHED,
            session: DESTROY,
            ..LaneResult::default()
        };
        self.destroy_where(&vec![result; ids.len()], &keys);
    }

    fn destroy_where(&self, results: &[LaneResult], keys: &[SessionKey]) {
        let results = Typed::new(self.gpu, results);
        let keys = Typed::new(self.gpu, keys);
        // SAFETY: the arrays have an item for each lane and live until the stream has done it.
        unsafe {
            let lanes = keys.items().len() as u32;
            self.sessions
                .destroy(self.stream, results.address(), lanes, keys.address())
                .unwrap();
        }
        self.gpu.synchronize(self.stream).unwrap();
    }

    fn sweep(&self, now: Millis, budget: u32) {
        // SAFETY: the sessions are alive.
        unsafe { self.sessions.sweep(self.stream, now, budget).unwrap() };
        self.gpu.synchronize(self.stream).unwrap();
    }

    fn live(&self) -> usize {
        self.sessions.live().unwrap()
    }
}

/// Runs a test on arrays of this capacity, whose refusals are the truth, in every order.
fn in_all_orders(capacity: u32, timeout: Millis, test: impl Fn(Device<'_>)) {
    for order in ORDERS {
        let gpu = Emulated::new(order);
        let sessions = DeviceSessions::new(&gpu, capacity, timeout).unwrap();
        assert_eq!(sessions.capacity(), capacity as usize);
        let sessions = sessions.with_search(capacity);
        test(Device::new(&gpu, &sessions));
    }
}

#[test]
fn a_session_lives_from_create_to_destroy() {
    in_all_orders(300, EXACT, |device| {
        for lanes in [1, 33, 256] {
            let ids = device.create_all((0..lanes).map(|user| user - 7), 0);
            let users: Vec<_> = (0..lanes).map(|user| Some(user - 7)).collect();
            assert_eq!(device.lookup(&ids, 1), users);
            assert_eq!(device.live(), lanes as usize);
            let slots: HashSet<_> = ids.iter().flatten().map(SessionId::slot).collect();
            assert!(slots.len() == lanes as usize && slots.iter().all(|slot| *slot < 300));
            device.destroy(&ids);
            assert_eq!(device.lookup(&ids, 1), vec![None; lanes as usize]);
            assert_eq!(device.live(), 0);
            // There is nothing left to destroy.
            device.destroy(&ids);
            assert_eq!(device.live(), 0);
        }
    });
}

#[test]
fn only_the_whole_id_finds_a_session() {
    in_all_orders(70, EXACT, |device| {
        let id = device.create_all([1], 0)[0].unwrap();
        let secret = random(1);
        let mut guesses: Vec<_> = (0..128)
            .map(|bit| Some(SessionId::new(id.slot(), secret ^ 1 << bit)))
            .collect();
        let elsewhere = [id.slot() ^ 1, 69, 70, 71, u32::MAX];
        guesses.extend(elsewhere.map(|slot| Some(SessionId::new(slot, secret))));
        // Free slots answer to no secret, not even one that was never written.
        guesses.extend([Some(SessionId::new(id.slot() ^ 2, 0)), None]);
        assert_eq!(device.lookup(&guesses, 0), vec![None; guesses.len()]);
        device.destroy(&guesses);
        // A key that is said not to be there is none, whatever else it says.
        let absent = SessionKey {
            present: 0,
            ..SessionKey::from(id)
        };
        let results = [LANE_ACTIVE, LANE_FAILED + 3, LANE_FINISHED].map(|outcome| LaneResult {
            outcome,
            session: if outcome == LANE_FINISHED { 0 } else { DESTROY },
            ..LaneResult::default()
        });
        device.destroy_where(&results, &[SessionKey::from(id); 3]);
        let asks = LaneResult {
            outcome: LANE_FINISHED,
            session: DESTROY,
            ..LaneResult::default()
        };
        device.destroy_where(&[asks], &[absent]);
        assert_eq!(device.lookup(&[Some(id), Some(id)], 0), [Some(1); 2]);
        // Of many that end the same session, one frees the slot.
        device.destroy(&[Some(id); 64]);
        assert_eq!(device.live(), 0);
    });
}

#[test]
fn an_old_id_does_not_find_the_next_session_in_its_slot() {
    in_all_orders(33, EXACT, |device| {
        let old = device.create_all(0..33, 0);
        device.destroy(&old);
        let new = device.create_all(100..133, 0);
        assert_eq!(device.lookup(&old, 0), vec![None; 33]);
        device.destroy(&old);
        let users: Vec<_> = (100..133).map(Some).collect();
        assert_eq!(device.lookup(&new, 0), users);
    });
}

#[test]
fn a_full_array_refuses_and_keeps_its_users() {
    for capacity in [0, 1, 2, 31, 33, 64, 65, 1000] {
        in_all_orders(capacity, EXACT, |device| {
            let wishes: Vec<_> = (0..i64::from(capacity) + 40)
                .map(|user| (user % 5 != 1).then(|| (user, random(user as u64))))
                .collect();
            let mut ids = Vec::new();
            for _ in 0..2 {
                ids.extend(
                    device
                        .create(&wishes, 0)
                        .into_iter()
                        .zip(&wishes)
                        .filter_map(|(created, wish)| Some((created.ok()??, (*wish)?.0))),
                );
            }
            assert_eq!(
                (ids.len(), device.live()),
                (capacity as usize, capacity as usize)
            );
            let (ids, users): (Vec<_>, Vec<_>) = ids
                .into_iter()
                .map(|(id, user)| (Some(id), Some(user)))
                .unzip();
            assert_eq!(device.lookup(&ids, EXACT), users);
            assert_eq!(device.create(&[Some((1, 1))], EXACT), [Err(Full)]);
        });
    }
}

#[test]
fn the_last_free_slots_of_a_large_array_are_found() {
    // Windows of 2048 slots, three to a region, the last of them with five slots.
    const CAPACITY: u32 = 70 * 2048 + 5;
    let gpu = Emulated::new(LaneOrder::Ascending);
    let sessions = DeviceSessions::new(&gpu, CAPACITY, EXACT).unwrap();
    let device = Device::new(&gpu, &sessions);
    let mut ids = Vec::new();
    for first in (0..CAPACITY).step_by(4096) {
        let last = (first + 4096).min(CAPACITY);
        ids.extend(device.create_all((first..last).map(i64::from), 0));
    }
    let slots: HashSet<_> = ids.iter().flatten().map(SessionId::slot).collect();
    assert_eq!(slots.len(), CAPACITY as usize);
    assert_eq!(device.create(&[Some((1, 1))], 0), [Err(Full)]);
    let few: Vec<_> = ids.iter().copied().step_by(9973).collect();
    device.destroy(&few);
    assert_eq!(device.live(), CAPACITY as usize - few.len());
    let again = device.create_all((0..few.len() as i64).map(|user| user << 40), 1);
    let slots = |ids: &[Option<SessionId>]| {
        ids.iter()
            .flatten()
            .map(SessionId::slot)
            .collect::<HashSet<_>>()
    };
    assert_eq!(slots(&again), slots(&few));
    assert_eq!(device.create(&[Some((1, 1))], 1), [Err(Full)]);
    device.sweep(EXACT + 1, u32::MAX);
    assert_eq!(device.live(), few.len());
}

#[test]
fn expiry_is_at_most_three_percent_late_and_never_early() {
    for timeout in [0, 1, 63, 64, 127, 128, 1000, 60_000, 1_800_000, 86_400_000] {
        for start in [0, 1, 12_345, 1_700_000_000_123, u64::MAX / 2] {
            let gpu = Emulated::new(LaneOrder::Ascending);
            let sessions = DeviceSessions::new(&gpu, 1, timeout).unwrap();
            let device = Device::new(&gpu, &sessions);
            let id = device.create_all([1], start);
            let late = start + timeout + 2 * (timeout / 64).max(1);
            assert_eq!(device.lookup(&id, late), [None], "{timeout} from {start}");
            assert_eq!(device.lookup(&id, start + timeout), [Some(1)], "{timeout}");
        }
    }
    let gpu = Emulated::new(LaneOrder::Ascending);
    let forever = DeviceSessions::new(&gpu, 1, Millis::MAX).unwrap();
    let device = Device::new(&gpu, &forever);
    let id = device.create_all([1], 0);
    assert_eq!(device.lookup(&id, Millis::MAX), [Some(1)]);
}

#[test]
fn a_use_puts_expiry_off_and_a_clock_that_is_behind_does_nothing() {
    in_all_orders(1, EXACT, |device| {
        let id = device.create_all([1], 1000);
        assert_eq!(device.lookup(&[id[0]; 40], 990), [Some(1); 40]);
        assert_eq!(device.create(&[Some((2, 2))], 990), [Err(Full)]);
        device.sweep(990, 1);
        assert_eq!(device.lookup(&[id[0]; 40], 1000 + EXACT), [Some(1); 40]);
        assert_eq!(
            device.lookup(&id, 1000 + 2 * EXACT),
            [Some(1)],
            "it was used"
        );
        assert_eq!(device.lookup(&id, 1001 + 3 * EXACT), [None]);
    });
}

#[test]
fn expired_slots_are_taken_over_and_only_those() {
    in_all_orders(500, EXACT, |device| {
        let ids = device.create_all(0..500, 0);
        let used: Vec<_> = ids.iter().copied().step_by(5).collect();
        assert!(device.lookup(&used, 60).iter().all(Option::is_some));
        let wishes: Vec<_> = (0..450)
            .map(|n| Some((n, random(1000 + n as u64))))
            .collect();
        let created = device.create(&wishes, 101);
        assert_eq!(
            created.iter().filter(|created| created.is_ok()).count(),
            400
        );
        let found = device.lookup(&ids, 101);
        for (n, user) in found.into_iter().enumerate() {
            assert_eq!(user, (n % 5 == 0).then_some(n as i64));
        }
        assert_eq!(device.create(&[Some((0, 9))], 160), [Err(Full)]);
    });
}

#[test]
fn a_search_has_a_bound() {
    let gpu = Emulated::new(LaneOrder::Ascending);
    let sessions = DeviceSessions::new(&gpu, 4096, EXACT)
        .unwrap()
        .with_search(40);
    let device = Device::new(&gpu, &sessions);
    let ids = device.create_all(0..4096, 0);
    // All but one are used.
    let expired = ids
        .iter()
        .position(|id| id.is_some_and(|id| id.slot() == 4095))
        .unwrap();
    let used: Vec<_> = ids
        .iter()
        .enumerate()
        .filter(|(n, _)| *n != expired)
        .map(|(_, id)| *id)
        .collect();
    assert!(device.lookup(&used, 60).iter().all(Option::is_some));
    let tries = (0..).position(|n| device.create(&[Some((n, random(n as u64)))], 101)[0].is_ok());
    assert_eq!(
        tries,
        Some(4096 / 40),
        "each try goes on where the last one stopped"
    );
    assert_eq!(device.lookup(&ids[expired..=expired], 101), [None]);
}

#[test]
fn sweep_frees_what_expired_within_its_budget() {
    in_all_orders(100, EXACT, |device| {
        for n in 0..100 {
            device.create_all([n], n as u64);
        }
        device.sweep(EXACT, 1000);
        assert_eq!(device.live(), 100);
        // By now the sessions of 0 to 49 have expired.
        let mut before = 100;
        for _ in 0..10 {
            device.sweep(EXACT + 50, 10);
            assert!((before - 10..=before).contains(&device.live()));
            before = device.live();
        }
        assert_eq!(before, 50, "ten tenths are a round");
        device.sweep(EXACT + 50, 0);
        assert_eq!(device.live(), 50);
        device.sweep(EXACT + 1000, u32::MAX);
        assert_eq!(device.live(), 0);
        let ids = device.create_all(0..100, 1100);
        assert!(device.lookup(&ids, 1100).iter().all(Option::is_some));
    });
}

/// Cohorts of random calls do what the same calls one by one do to the host's array.
#[test]
fn cohorts_do_what_the_host_does() {
    for (round, (order, lanes)) in ORDERS
        .into_iter()
        .flat_map(|order| [1, 33, 256].map(|lanes| (order, lanes)))
        .enumerate()
    {
        let capacity = [6, 150, 700][round % 3];
        let gpu = Emulated::new(order);
        let sessions = DeviceSessions::new(&gpu, capacity, EXACT)
            .unwrap()
            .with_search(capacity);
        let device = Device::new(&gpu, &sessions);
        let host = SessionArray::new(capacity, EXACT);
        // The device's id and the host's of each session there ever was.
        let mut ids: Vec<(SessionId, SessionId)> = Vec::new();
        let mut seed = round as u64 * 1_000_000;
        let mut below = |n: usize| {
            seed += 1;
            (random(seed) >> 64) as usize % n
        };
        let (mut now, mut user) = (12_345, 0);
        let (mut refused, mut found, mut gone) = (0, 0, 0);
        for _ in 0..if lanes == 1 { 3000 } else { 200 } {
            // Some of the last ones, some never there, some with a wrong secret.
            let chosen = |below: &mut dyn FnMut(usize) -> usize, wrong: usize| -> Vec<_> {
                let mut one = || {
                    let recent = ids.len().min(2 * capacity as usize);
                    if recent == 0 || below(10) == 0 {
                        return (None, None);
                    }
                    let (mut ours, mut theirs) = ids[ids.len() - 1 - below(recent)];
                    if below(10) < wrong {
                        let bit = 1 << below(128);
                        ours = SessionId::new(ours.slot(), ours.secret() ^ bit);
                        theirs = SessionId::new(theirs.slot(), theirs.secret() ^ bit);
                    }
                    (Some(ours), Some(theirs))
                };
                (0..lanes).map(|_| one()).collect()
            };
            match below(8) {
                0..=2 => {
                    let wishes: Vec<_> = (0..lanes)
                        .map(|_| {
                            // No two sessions have the same secret, or an old id could be a new one.
                            user += 1;
                            (below(4) > 0).then(|| (user, random(user as u64)))
                        })
                        .collect();
                    let created = device.create(&wishes, now);
                    // Which lanes are refused is the device's choice, how many are is not.
                    for (created, wish) in created.iter().zip(&wishes) {
                        if let (Ok(Some(id)), Some((user, bits))) = (created, wish) {
                            ids.push((*id, host.create(*user, *bits, now).unwrap()));
                        }
                    }
                    for _ in created.iter().filter(|created| created.is_err()) {
                        assert_eq!(host.create(0, 0, now), Err(Full));
                        refused += 1;
                    }
                }
                3..=5 => {
                    let (ours, theirs): (Vec<_>, Vec<_>) =
                        chosen(&mut below, 2).into_iter().unzip();
                    let mut expected = vec![None; lanes];
                    host.lookup_batch(&theirs, now, &mut expected);
                    found += expected.iter().flatten().count();
                    gone += expected
                        .iter()
                        .zip(&theirs)
                        .filter(|(user, id)| user.is_none() && id.is_some())
                        .count();
                    assert_eq!(device.lookup(&ours, now), expected);
                }
                6 => {
                    let (ours, theirs): (Vec<_>, Vec<_>) =
                        chosen(&mut below, 1).into_iter().unzip();
                    device.destroy(&ours);
                    for id in theirs.iter().flatten() {
                        host.destroy(id);
                    }
                }
                _ => {
                    now += below(40) as Millis;
                    device.sweep(now, below(capacity as usize) as u32);
                    if below(4) == 0 {
                        device.sweep(now, capacity);
                        host.sweep(now, capacity as usize);
                        assert_eq!(device.live(), host.live());
                    }
                }
            }
        }
        assert!(
            refused > 0 && found > 0 && gone > 0,
            "{refused} {found} {gone}"
        );
    }
}

/// Streams log cohorts in, look them up and out at the same time, in an array too small for them. Each knows what its own sessions must
/// answer; ids that are no more are tried as well.
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

/// Sessions expire while streams log in and use them: nobody is thrown out before the time, and nobody's session is another's.
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

/// Ids are looked up while the sessions they name end and others begin in the same slots: an answer is the id's own user or none.
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

/// Sessions are used in their last moment while another stream, whose clock is a little ahead, looks for expired ones: each is
/// either used, and then it stays, or gone.
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
