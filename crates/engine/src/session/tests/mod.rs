//! Tests of the array as its users see it. What depends on how threads interleave is checked with
//! loom, in `tests/session_loom.rs`.

mod fields;
mod limits;
mod shared;
mod threads;

use super::slot::Slot;
use super::{Full, Millis, SessionArray, SessionId};

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
