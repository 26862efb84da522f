//! One rule at a time.

use crate::device::{DESTROY, Device, EXACT, in_all_orders, random};
use rhythm_engine::session::{Full, Millis, SessionId};
use rhythm_engine_cuda::abi::{LANE_ACTIVE, LANE_FAILED, LANE_FINISHED, LaneResult, SessionKey};
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::sessions::DeviceSessions;
use std::collections::HashSet;

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
