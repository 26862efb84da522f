//! What holds for every store: each kind of change, expiry, flushes.

mod full;

use super::table::{Oracle, Table};
use super::*;

fn worker(options: StoreOptions) -> Worker {
    let store = Arc::new(Store::new(options).expect("there is memory"));
    store.worker().expect("it is the first")
}

fn new(value: &[u8]) -> New<'_> {
    New {
        value: Value::Bytes(value),
        flags: 0,
        expires: 0,
        cas: None,
        marks: Marks::default(),
    }
}

/// It expires then, and all else stays.
fn until(expires: u32) -> Change<'static> {
    Change::Touch(Touch {
        expires,
        wins: false,
        fetches: false,
    })
}

fn change(worker: &mut Worker, key: &[u8], now: u32, change: Change<'_>) -> u64 {
    let hash = worker.store().hash(key);
    let updated = (worker.pin()).update(hash, key, now, |_| (change, ()));
    updated.expect("there is room").cas
}

fn value(worker: &mut Worker, key: &[u8], now: u32) -> Option<Vec<u8>> {
    let hash = worker.store().hash(key);
    let pinned = worker.pin();
    pinned.get(hash, key, now).map(|item| item.value().to_vec())
}

#[test]
fn a_change_is_decided_from_what_is_there() {
    let mut worker = worker(StoreOptions::default());
    assert_eq!(value(&mut worker, b"k", 1), None);
    let first = change(&mut worker, b"k", 1, Change::Store(new(b"12")));
    let values = [
        (Value::Appended(b"3"), &b"123"[..]),
        (Value::Prepended(b"0"), b"0123"),
        (Value::Same, b"0123"),
        (
            Value::Number {
                number: 7,
                width: 4,
            },
            b"7   ",
        ),
        (
            Value::Number {
                number: 70,
                width: 1,
            },
            b"70",
        ),
    ];
    for (how, expected) in values {
        let changed = New {
            value: how,
            ..new(b"")
        };
        assert!(change(&mut worker, b"k", 1, Change::Store(changed)) > first);
        assert_eq!(value(&mut worker, b"k", 1).as_deref(), Some(expected));
    }
    change(&mut worker, b"k", 1, Change::Remove);
    assert_eq!(value(&mut worker, b"k", 1), None);
    assert_eq!(worker.store().stats().items, 0);
}

#[test]
fn an_item_expires_to_the_second() {
    let mut worker = worker(StoreOptions::default());
    let expiring = New {
        expires: 5,
        ..new(b"v")
    };
    change(&mut worker, b"k", 1, Change::Store(expiring));
    assert!(value(&mut worker, b"k", 4).is_some());
    assert!(value(&mut worker, b"k", 5).is_none());
    change(&mut worker, b"k", 1, Change::Store(expiring));
    change(&mut worker, b"k", 4, until(9));
    assert!(value(&mut worker, b"k", 8).is_some());
    assert!(value(&mut worker, b"k", 9).is_none());
}

#[test]
fn a_flush_takes_what_is_there_and_a_later_one_what_is_old_then() {
    let mut worker = worker(StoreOptions::default());
    change(&mut worker, b"a", 7, Change::Store(new(b"v")));
    worker.store().flush_all(7, 7);
    assert_eq!(value(&mut worker, b"a", 7), None);
    change(&mut worker, b"a", 7, Change::Store(new(b"w")));
    assert!(value(&mut worker, b"a", 7).is_some());
    // memcached's way: it comes a second before, and that second's items go with it.
    worker.store().flush_all(10, 7);
    assert!(value(&mut worker, b"a", 8).is_some());
    change(&mut worker, b"b", 9, Change::Store(new(b"v")));
    assert_eq!(value(&mut worker, b"a", 9), None);
    assert_eq!(value(&mut worker, b"b", 9), None);
    // Who made it is told of it.
    let hash = worker.store().hash(b"b");
    assert!(worker.pin().made(hash, b"b").is_some());
    change(&mut worker, b"b", 10, Change::Store(new(b"v")));
    assert!(value(&mut worker, b"b", 10).is_some());
}

#[test]
fn what_is_stored_behind_a_flush_stays_whatever_its_cas_id() {
    let mut worker = worker(StoreOptions::default());
    for _ in 0..5 {
        change(&mut worker, b"a", 7, Change::Store(new(b"v")));
    }
    // Accessed by a worker whose second has begun sooner.
    change(&mut worker, b"b", 8, Change::Store(new(b"v")));
    worker.store().flush_all(7, 7);
    assert_eq!(
        (value(&mut worker, b"a", 8), value(&mut worker, b"b", 8)),
        (None, None)
    );
    let chosen = New {
        cas: Some(1),
        ..new(b"w")
    };
    change(&mut worker, b"a", 9, Change::Store(chosen));
    assert_eq!(value(&mut worker, b"a", 9).as_deref(), Some(&b"w"[..]));
    // A flush that was to come leaves nothing of the earlier one behind.
    worker.store().flush_all(20, 9);
    assert!(value(&mut worker, b"a", 18).is_some() && value(&mut worker, b"a", 19).is_none());
    worker.pin().tend(19);
    change(&mut worker, b"a", 20, Change::Store(chosen));
    assert!(value(&mut worker, b"a", 20).is_some());
    // Nor does one bring back what another took, where it comes right behind.
    worker.store().flush_all(20, 20);
    change(&mut worker, b"b", 21, Change::Store(new(b"v")));
    change(&mut worker, b"c", 21, Change::Store(new(b"v")));
    worker.store().flush_all(21, 21);
    worker.store().flush_all(23, 21);
    worker.pin().tend(22);
    for key in [b"a", b"b", b"c"] {
        assert_eq!(value(&mut worker, key, 22), None);
    }
}

#[test]
fn without_cas_ids_a_flush_takes_the_whole_second() {
    let mut worker = worker(StoreOptions {
        cas: false,
        ..StoreOptions::default()
    });
    change(&mut worker, b"a", 7, Change::Store(new(b"v")));
    worker.store().flush_all(7, 7);
    assert_eq!(value(&mut worker, b"a", 7), None);
    change(&mut worker, b"a", 8, Change::Store(new(b"v")));
    assert!(value(&mut worker, b"a", 8).is_some());
}

#[test]
fn one_client_wins_and_access_is_noted() {
    let mut worker = worker(StoreOptions::default());
    change(&mut worker, b"k", 3, Change::Store(new(b"v")));
    let hash = worker.store().hash(b"k");
    let pinned = worker.pin();
    let item = pinned.get(hash, b"k", 4).expect("it was stored");
    assert_eq!((item.last_access(), item.is_fetched()), (3, false));
    item.access(4);
    assert_eq!((item.last_access(), item.is_fetched()), (4, true));
    item.renew(5);
    assert_eq!((item.last_access(), item.is_fetched()), (5, true));
    drop(pinned);
    let mut wins = || {
        let win = |item: Option<&Item<'_>>| match item {
            Some(item) if !item.is_won() => {
                let touch = Touch {
                    expires: item.expires(),
                    wins: true,
                    fetches: false,
                };
                (Change::Touch(touch), true)
            }
            _ => (Change::Keep, false),
        };
        let updated = worker.pin().update(hash, b"k", 4, win);
        updated.expect("it needs no room").outcome
    };
    assert!(wins() && !wins());
}

#[test]
fn memory_grows_at_once_and_shrinks_by_and_by() {
    const MIB: usize = 1 << 20;
    let mut worker = worker(StoreOptions {
        memory: 32 * MIB,
        memory_max: 64 * MIB,
        ..StoreOptions::default()
    });
    let value_of = [b'v'; 4000];
    let fill = |worker: &mut Worker| {
        for key in 0..16_000_u32 {
            change(worker, &key.to_le_bytes(), 1, Change::Store(new(&value_of)));
        }
        worker.store().stats()
    };
    let before = fill(&mut worker);
    assert!(before.evictions > 0 && before.memory_used <= 32 * MIB as u64);
    assert!(worker.store().set_memory(64 * MIB));
    let grown = fill(&mut worker);
    assert!(grown.memory_used > 48 * MIB as u64);
    assert!(!worker.store().set_memory(65 * MIB) && worker.store().memory() == 64 * MIB);
    assert!(worker.store().set_memory(8 * MIB));
    let mut turns = 0;
    while worker.pin().tend(1) || worker.store().stats().memory_used > 8 * MIB as u64 {
        turns += 1;
        assert!(turns < 10_000, "it does not get less");
    }
    let shrunk = worker.store().stats();
    assert!(shrunk.items > 500 && shrunk.evictions > grown.evictions);
    assert!(fill(&mut worker).memory_used <= 8 * MIB as u64);
}

#[test]
fn overwritten_items_leave_their_segments_to_others_long_before_memory_is_short() {
    let mut worker = worker(StoreOptions::default());
    let value = [7; 1000];
    // 20 MB are written, of which 100 kB are there at a time; a segment has 128 KiB.
    for number in 0..20_000_u32 {
        let key = (number % 100).to_le_bytes();
        change(&mut worker, &key, 1, Change::Store(new(&value)));
    }
    let stats = worker.store().stats();
    assert_eq!((stats.items, stats.evictions), (100, 0));
    assert!(stats.memory_used <= 1 << 20, "{}", stats.memory_used);
}

#[test]
fn a_bucket_of_twelve_slots_is_a_cache_line() {
    let stats = worker(StoreOptions::default()).store().stats();
    assert_eq!(stats.table_bytes * 12, stats.table_slots * 64);
}

#[test]
fn memory_made_ready_while_items_are_stored_leaves_them_alone() {
    let mut worker = worker(StoreOptions::default());
    for number in 0..50_000_u32 {
        let key = number.to_le_bytes();
        change(&mut worker, &key, 1, Change::Store(new(&key)));
        if number % 500 == 0 {
            // Where the system cannot, there is nothing to be seen.
            let _ = worker.store().prepare();
        }
    }
    for number in 0..50_000_u32 {
        let key = number.to_le_bytes();
        assert_eq!(value(&mut worker, &key, 1).as_deref(), Some(&key[..]));
    }
}

/// Stores values of so many bytes under numbers, under one guard, and tells how many were refused.
fn store_all(worker: &mut Worker, numbers: std::ops::Range<u32>, bytes: usize) -> usize {
    let (store, value) = (Arc::clone(worker.store()), vec![1; bytes]);
    let mut pinned = worker.pin();
    let is_refused = |number: &u32| {
        let key = number.to_le_bytes();
        let change = Change::Store(new(&value));
        let updated = pinned.update(store.hash(&key), &key, 1, |_| (change, ()));
        updated
            .inspect_err(|not| assert_eq!(*not, NotStored::OutOfMemory))
            .is_err()
    };
    numbers.filter(is_refused).count()
}

#[test]
fn a_write_that_another_guard_keeps_from_memory_is_refused_and_evicts_no_more() {
    // Items in segments, and long values.
    for (bytes, many, least) in [(100, 200_000, 80_000), (1_000_000, 100, 10)] {
        let mut worker = worker(StoreOptions {
            memory: 16 << 20,
            ..StoreOptions::default()
        });
        let store = Arc::clone(worker.store());
        let mut other = store.worker().expect("it is the second");
        assert_eq!(store_all(&mut worker, 0..many, bytes), 0);
        let guard = other.pin();
        store_all(&mut worker, 200_000..200_000 + many / 10, bytes);
        let evictions = store.stats().evictions;
        // A thousand times under one guard: none sleeps, or takes back what gives no memory.
        let refused = store_all(&mut worker, 300_000..301_000, bytes);
        assert_eq!(refused, 1000, "the other guard may still read all memory");
        let stats = store.stats();
        assert_eq!(stats.evictions, evictions, "{stats:?}");
        assert!(stats.items >= least, "nearly all stay: {stats:?}");
        drop(guard);
        assert_eq!(store_all(&mut worker, 301_000..302_000, bytes), 0);
    }
}

#[test]
fn a_long_value_takes_no_more_than_its_room() {
    let memory = 32 << 20;
    let mut worker = worker(StoreOptions {
        memory,
        item_max: memory,
        ..StoreOptions::default()
    });
    let store = Arc::clone(worker.store());
    assert_eq!(store_all(&mut worker, 0..100, 1_000_000), 0);
    let before = store.stats();
    // Of long ones as many as are as long.
    assert_eq!(store_all(&mut worker, 100..101, 8_000_000), 0);
    let evicted = store.stats().evictions - before.evictions;
    assert!((6..=10).contains(&evicted), "{evicted}");
    // Of short ones as many bytes as are missing, and up to a segment's more.
    store.flush_all(1, 1);
    assert_eq!(store_all(&mut worker, 1000..301_000, 50), 0);
    let before = store.stats();
    assert_eq!(store_all(&mut worker, 0..1, 8_000_000), 0);
    let after = store.stats();
    let evicted = before.items + 1 - after.items;
    let size = before.bytes / before.items;
    assert!(evicted * size < 9_000_000, "{evicted} of {size} bytes");
}

/// Items whose hash follows from their location.
struct Formula(fn(u32) -> Hash);

impl Oracle for Formula {
    fn hash_of(&self, location: u32) -> Hash {
        self.0(location)
    }

    fn prefetch(&self, _location: u32) {}
}

#[test]
fn two_buckets_hold_twenty_four_items_and_evict_rather_than_chain() {
    let table = Table::new().expect("there is memory");
    // The same buckets, and different tags.
    let oracle = Formula(|location| Hash(5 | 6 << 32 | u64::from(location + 1) << 56));
    let hash = |location| oracle.hash_of(location);
    for location in 0..24 {
        let mut locked = table.lock(hash(location));
        let slot = locked.vacancy(&oracle).expect("there are as many slots");
        locked.fill(slot, location);
    }
    assert!(table.lock(hash(24)).vacancy(&oracle).is_none());
    for location in 0..24 {
        assert_eq!(table.find(hash(location), Some), Some(location));
        let mut locked = table.lock(hash(location));
        let slot = locked.find(|found| found == location);
        locked.remove(slot.expect("it is there"));
        drop(locked);
        assert_eq!(table.find(hash(location), Some), None);
    }
    assert_eq!(table.items(), 0);
}

#[test]
fn the_table_grows_a_bucket_at_a_time_and_keeps_every_item() {
    let table = Table::new().expect("there is memory");
    let oracle = Formula(|location| {
        let mixed = (u64::from(location) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Hash(mixed ^ mixed >> 29)
    });
    let hash = |location| oracle.hash_of(location);
    for location in 0..100_000 {
        let mut locked = table.lock(hash(location));
        let slot = locked.vacancy(&oracle).expect("moving makes a slot free");
        locked.fill(slot, location);
        drop(locked);
        if table.is_crowded() {
            assert!(table.grow(&oracle));
        }
        assert!(!table.is_crowded(), "one bucket is enough");
    }
    for location in 0..100_000 {
        let found = table.find(hash(location), |found| (found == location).then_some(()));
        assert!(found.is_some(), "{location}");
    }
    assert_eq!(table.locations().count(), 100_000);
}
