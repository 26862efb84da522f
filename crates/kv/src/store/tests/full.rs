//! Stores that are full: what may not be evicted, what moves, and what is looked for.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;

const MIB: usize = 1 << 20;

/// A store whose items may not be evicted.
fn strict(memory: usize) -> Worker {
    worker(StoreOptions {
        memory,
        item_max: memory,
        evict: false,
        ..StoreOptions::default()
    })
}

/// Whether an item is stored.
fn is_stored(worker: &mut Worker, key: u32, now: u32, new: New<'_>) -> bool {
    let key = key.to_le_bytes();
    let hash = worker.store().hash(&key);
    let stored = (worker.pin()).update(hash, &key, now, |_| (Change::Store(new), ()));
    stored
        .inspect_err(|not| assert_eq!(*not, NotStored::OutOfMemory))
        .is_ok()
}

/// Stores items until one is refused, and tells how many there are.
fn fill(worker: &mut Worker, now: u32, new: New<'_>) -> u32 {
    let refused = (0..).find(|key| !is_stored(worker, *key, now, new));
    refused.expect("memory is bounded")
}

fn is_there(worker: &mut Worker, key: u32, now: u32) -> bool {
    value(worker, &key.to_le_bytes(), now).is_some()
}

#[test]
fn where_there_is_no_room_an_item_lasts_longer_where_it_lies() {
    // Items that share segments, and one whose value is elsewhere.
    for (length, memory) in [(100, 2 * MIB), (300_000, 8 * MIB)] {
        let mut worker = strict(memory);
        let bytes = vec![7; length];
        let soon = New {
            expires: 20,
            ..new(&bytes)
        };
        let items = fill(&mut worker, 1, soon);
        for (key, expires) in [(0, 10_000), (1, 0), (2, 5)] {
            let key = u32::to_le_bytes(key);
            change(&mut worker, &key, 2, until(expires));
        }
        assert!(!is_there(&mut worker, 2, 5) && is_there(&mut worker, 3, 19));
        assert!(is_there(&mut worker, 0, 9_999) && is_there(&mut worker, 1, 20_000));
        assert!(!is_there(&mut worker, 0, 10_000));
        // The others give their room back when their time has come.
        let bytes = &bytes[..length / 2];
        let again = (10..items).filter(|key| is_stored(&mut worker, *key, 30, new(bytes)));
        assert_eq!(again.count() as u32, items - 10);
        assert!(is_there(&mut worker, 0, 30) && is_there(&mut worker, 1, 30));
    }
}

#[test]
fn less_memory_that_is_enough_for_all_is_enough_for_their_moves() {
    let bytes = [7; 1000];
    // To half of it, and to what is used just then, of which one item of so many stays.
    for (part, is_half) in [(2, true), (3, true), (2, false), (3, false), (4, false)] {
        let mut worker = strict(8 * MIB);
        let items = fill(&mut worker, 1, new(&bytes));
        for key in (0..items).filter(|key| key % part > 0) {
            change(&mut worker, &key.to_le_bytes(), 1, Change::Remove);
        }
        let used = worker.store().stats().memory_used as usize;
        let memory = if is_half { 4 * MIB } else { used };
        assert!(worker.store().set_memory(memory));
        while worker.pin().tend(1) {}
        let used = worker.store().stats().memory_used as usize;
        // The last one that something moved to may be one too many.
        assert!(used <= memory + (64 << 10), "{used}, {part}");
        for key in (0..items).filter(|key| key % (2 * part) == part) {
            change(&mut worker, &key.to_le_bytes(), 1, Change::Remove);
        }
        for key in 0..1500 {
            assert!(
                is_stored(&mut worker, items + key, 1, new(&bytes)),
                "{key}, {part}, {is_half}"
            );
        }
        for key in (0..items).filter(|key| key % (2 * part) == 0) {
            assert!(is_there(&mut worker, key, 1), "{key}, {part}, {is_half}");
        }
    }
}

#[test]
fn what_is_deleted_makes_room_in_the_same_second() {
    let mut worker = strict(4 * MIB);
    let bytes = [7; 1000];
    let items = fill(&mut worker, 1, new(&bytes));
    for round in 0..8 {
        assert!(!is_stored(&mut worker, items, 1, new(&bytes)));
        // One here and one there: the others have to move.
        let gone = (0..items).filter(|key| key % 8 == round);
        for key in gone.clone() {
            change(&mut worker, &key.to_le_bytes(), 1, Change::Remove);
        }
        let many = gone.clone().count();
        let again = gone.filter(|key| is_stored(&mut worker, *key, 1, new(&bytes)));
        assert!(again.count() > many / 2, "of {many} in round {round}");
        let _ = fill(&mut worker, 1, new(&bytes));
    }
}

#[test]
fn a_long_value_that_is_touched_or_marked_is_not_copied() {
    let mut worker = worker(StoreOptions {
        memory: 16 * MIB,
        item_max: 16 * MIB,
        ..StoreOptions::default()
    });
    let bytes = vec![7; 10 * MIB];
    let soon = New {
        expires: 10,
        ..new(&bytes)
    };
    change(&mut worker, b"long", 1, Change::Store(soon));
    assert_eq!(fill_some(&mut worker, 3000), 3000);
    let address = |worker: &mut Worker| {
        let hash = worker.store().hash(b"long");
        let pinned = worker.pin();
        let item = pinned.get(hash, b"long", 2).expect("it is there");
        (
            item.value().as_ptr().addr(),
            item.value().len(),
            item.expires(),
        )
    };
    let before = address(&mut worker);
    change(&mut worker, b"long", 2, until(100_000));
    let marked = New {
        value: Value::Same,
        expires: 200_000,
        ..new(b"")
    };
    change(&mut worker, b"long", 2, Change::Store(marked));
    assert_eq!(address(&mut worker), (before.0, before.1, 200_000));
    let stats = worker.store().stats();
    assert_eq!((stats.evictions, stats.items), (0, 3001));
    // It is counted once, and its room comes back once it is gone.
    assert_eq!(worker.store().items.segments.large_bytes(), 10 * MIB);
    change(&mut worker, b"long", 2, Change::Remove);
    assert_eq!(fill_some(&mut worker, 12_000), 12_000);
    assert_eq!(worker.store().items.segments.large_bytes(), 0);
    assert_eq!(worker.store().stats().evictions, 0);
}

/// Stores items of a KiB, and tells how many are there.
fn fill_some(worker: &mut Worker, items: u32) -> usize {
    let bytes = [7; 1000];
    let stored = (0..items).filter(|key| is_stored(worker, *key, 2, new(&bytes)));
    stored.count();
    (0..items).filter(|key| is_there(worker, *key, 2)).count()
}

#[test]
fn while_a_long_value_is_copied_others_write_its_key() {
    let mut worker = worker(StoreOptions {
        // None of it has to be taken back, which others could do something in.
        memory: 4096 * MIB,
        item_max: 256 * MIB,
        ..StoreOptions::default()
    });
    let store = Arc::clone(worker.store());
    let bytes = vec![7; 128 * MIB];
    let hash = store.hash(b"long");
    // The write was decided, and is not done.
    let is_under_way = AtomicBool::new(false);
    let (others, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = store.worker().expect("it is the second");
            while !is_over.load(Ordering::Relaxed) {
                let before = is_under_way.load(Ordering::SeqCst);
                change(&mut other, b"long", 1, Change::Store(new(b"short")));
                if before && is_under_way.load(Ordering::SeqCst) {
                    others.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // How many are in time is the system's to say.
        let mut most = 0;
        for _ in 0..100 {
            others.store(0, Ordering::Relaxed);
            let updated = worker.pin().update(hash, b"long", 1, |_| {
                is_under_way.store(true, Ordering::SeqCst);
                (Change::Store(new(&bytes)), ())
            });
            is_under_way.store(false, Ordering::SeqCst);
            updated.expect("there is room");
            most = most.max(others.load(Ordering::Relaxed));
            if most >= 20 {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(most >= 20, "{most}");
    });
}

#[test]
fn long_values_are_put_together_of_what_the_key_has() {
    let mut worker = worker(StoreOptions {
        memory: 64 * MIB,
        item_max: 32 * MIB,
        ..StoreOptions::default()
    });
    let bytes: Vec<u8> = (0..3 * MIB).map(|at| (at % 251) as u8).collect();
    let ways = |bytes| [Value::Appended(bytes), Value::Prepended(bytes)];
    // Behind and before a value in its segment, and then a long one.
    let mut expected = b"short".to_vec();
    change(&mut worker, b"k", 1, Change::Store(new(b"short")));
    for way in ways(&bytes[..]) {
        expected = match way {
            Value::Appended(_) => [&expected, &bytes[..]].concat(),
            _ => [&bytes[..], &expected].concat(),
        };
        let put = New {
            value: way,
            ..new(b"")
        };
        change(&mut worker, b"k", 1, Change::Store(put));
        assert!(value(&mut worker, b"k", 1).as_deref() == Some(&expected[..]));
    }
    // Where it is another each time, it is copied in the end.
    let hash = worker.store().hash(b"k");
    let mut times = 0;
    let updated = worker.pin().update(hash, b"k", 1, |_| {
        times += 1;
        (Change::Store(new(&bytes[times..])), times)
    });
    let last = updated.expect("there is room").outcome;
    assert!(value(&mut worker, b"k", 1).as_deref() == Some(&bytes[last..]));
    worker.pin().tend(1);
    assert_eq!(
        worker.store().items.segments.large_bytes(),
        bytes.len() - last
    );
    assert!(last > 2);
}

#[test]
fn what_a_value_too_long_for_both_would_be_put_together_of_costs_no_other_item() {
    let mut worker = worker(StoreOptions {
        memory: 16 * MIB,
        item_max: 8 * MIB,
        ..StoreOptions::default()
    });
    let nearly_half = vec![7; 8 * MIB - 100_000];
    change(&mut worker, b"long", 2, Change::Store(new(&nearly_half)));
    assert_eq!(fill_some(&mut worker, 3000), 3000);
    for value in [Value::Appended(b"more"), Value::Prepended(b"more")] {
        let hash = worker.store().hash(b"long");
        let put = New { value, ..new(b"") };
        let updated = (worker.pin()).update(hash, b"long", 2, |_| (Change::Store(put), ()));
        assert!(matches!(updated, Err(NotStored::OutOfMemory)));
    }
    // While it is appended to, it is there still.
    let stats = worker.store().stats();
    assert_eq!((stats.evictions, stats.items), (0, 3001));
    assert_eq!(value(&mut worker, b"long", 2), Some(nearly_half));
    // In its place there is room for one as long.
    change(
        &mut worker,
        b"long",
        2,
        Change::Store(new(&[8; 8 * MIB - 100_000])),
    );
}

#[test]
fn what_is_appended_comes_behind_what_is_there_in_the_end() {
    let mut worker = worker(StoreOptions {
        memory: 256 * MIB,
        item_max: 64 * MIB,
        ..StoreOptions::default()
    });
    let store = Arc::clone(worker.store());
    let (hash, mut other) = (store.hash(b"k"), store.worker().expect("it is the second"));
    let bytes: Vec<u8> = (0..3 * MIB).map(|at| (at % 251) as u8).collect();
    change(&mut worker, b"k", 1, Change::Store(new(b"0")));
    let (rounds, appended) = (
        AtomicU32::new(0),
        New {
            value: Value::Appended(&bytes),
            ..new(b"")
        },
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            while rounds.load(Ordering::Relaxed) < 20 {
                let text = format!("{}", rounds.load(Ordering::Relaxed) % 10);
                change(&mut other, b"k", 1, Change::Store(new(text.as_bytes())));
                for _ in 0..3 {
                    let now = value(&mut other, b"k", 1).expect("it is always there");
                    assert!(now[0].is_ascii_digit() && now.len() % bytes.len() == 1);
                    assert!(now[1..].chunks(bytes.len()).all(|piece| piece == bytes));
                    thread::yield_now();
                }
            }
        });
        for _ in 0..20 {
            let updated = worker.pin().update(hash, b"k", 1, |item| {
                (
                    Change::Store(appended),
                    item.map_or(0, |item| item.value().len()),
                )
            });
            updated.expect("there is room");
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
}
