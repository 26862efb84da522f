//! Several workers at one store: values that tell whose they are and whether they are whole.

use rhythm_kv::store::{Change, Item, Marks, New, Store, StoreOptions, Value, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const WORKERS: u64 = 4;

fn store(memory: usize) -> Arc<Store> {
    let options = StoreOptions {
        memory,
        workers: WORKERS as usize,
        ..StoreOptions::default()
    };
    Arc::new(Store::new(options).expect("there is memory"))
}

/// Runs one worker a thread, all at the same time, each with its number.
fn workers(store: &Arc<Store>, run: impl Fn(u64, Worker) + Sync) {
    thread::scope(|scope| {
        for number in 0..WORKERS {
            let worker = store.worker().expect("there are as many");
            let run = &run;
            scope.spawn(move || run(number, worker));
        }
    });
}

fn new(value: Value<'_>) -> New<'_> {
    New {
        value,
        flags: 0,
        expires: 0,
        cas: None,
        marks: Marks::default(),
    }
}

/// A worker that has ended, in order or not.
struct Ended<'a>(&'a AtomicU64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A value that tells its key: the key, then a number, and then bytes made of both.
fn checked(key: u64, number: u64) -> Vec<u8> {
    let mut bytes = [key.to_le_bytes(), number.to_le_bytes()].concat();
    let length = (key.wrapping_mul(31) ^ number.wrapping_mul(17)) % 400;
    let fill = key.wrapping_add(number) as u8;
    bytes.extend((0..length).map(|i| fill.wrapping_add(i as u8)));
    bytes
}

fn check(key: u64, item: &Item<'_>) {
    let value = item.value();
    let number = u64::from_le_bytes(value[8..16].try_into().expect("8 bytes"));
    assert!(
        value == checked(key, number),
        "a torn or foreign value of {key}"
    );
    assert_eq!(item.key(), key.to_le_bytes());
    assert_eq!(item.flags(), number as u32 & 3);
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Many more keys than there is memory for: segments are taken back and used again all the time,
/// the table grows, and what a turn has found stays as it is until its end.
#[test]
fn what_a_turn_found_stays_whole_while_memory_is_used_again() {
    let store = store(4 << 20);
    workers(&store, |number, mut worker| {
        let mut state = number + 1;
        for round in 0..4000_u64 {
            let now = 1 + (round / 100) as u32;
            let mut pinned = worker.pin();
            for _ in 0..16 {
                let key = random(&mut state) % 60_000;
                let (hash, bytes) = (store.hash(&key.to_le_bytes()), key.to_le_bytes());
                let serial = random(&mut state);
                let value = checked(key, serial);
                let new = New {
                    flags: serial as u32 & 3,
                    expires: if serial.is_multiple_of(3) { now + 5 } else { 0 },
                    ..new(Value::Bytes(&value))
                };
                let change = match serial % 16 {
                    0 => Change::Remove,
                    _ => Change::Store(new),
                };
                let updated = pinned.update(hash, &bytes, now, |item| {
                    item.inspect(|item| check(key, item));
                    (change, ())
                });
                // Where the machine lets a worker sleep in the middle of its turn, others wait for
                // the memory that they evicted.
                assert!(updated.is_ok(), "{:?}", updated.err());
            }
            let keys: Vec<u64> = (0..32).map(|_| random(&mut state) % 60_000).collect();
            let mut found = Vec::new();
            for key in keys {
                let bytes = key.to_le_bytes();
                if let Some(item) = pinned.get(store.hash(&bytes), &bytes, now) {
                    item.access(now);
                    found.push((key, item));
                }
            }
            if round % 16 == 0 {
                thread::yield_now();
            }
            found.iter().for_each(|(key, item)| check(*key, item));
            drop(found);
            if round % 64 == 0 {
                pinned.tend(now);
            }
        }
    });
    let stats = store.stats();
    assert!(stats.evictions > 10_000, "{stats:?}");
    assert!(stats.memory_used <= 4 << 20, "{stats:?}");
}

/// Values of 20 bytes to 1 MB, 16 MiB for them, and a worker that gets no processor for a while in
/// the middle of each turn: memory that was taken back is waited for, and no write is refused.
#[test]
fn no_write_is_refused_where_a_worker_sleeps_in_its_turn() {
    let store = store(16 << 20);
    let value = vec![7; 1_000_000];
    let ended = AtomicU64::new(0);
    workers(&store, |number, mut worker| {
        if number == 0 {
            while ended.load(Ordering::Relaxed) < WORKERS - 1 {
                let _pinned = worker.pin();
                thread::sleep(Duration::from_millis(5));
            }
            return;
        }
        let _ended = Ended(&ended);
        let mut state = number;
        for _ in 0..250 {
            let mut pinned = worker.pin();
            for _ in 0..4 {
                // The logarithm is spread evenly.
                let bits = random(&mut state) % 16;
                let length = (20 << bits) + random(&mut state) % (20 << bits);
                let length = (length as usize).min(value.len());
                let key = (random(&mut state) % 3000).to_le_bytes();
                let change = Change::Store(new(Value::Bytes(&value[..length])));
                let stored = pinned.update(store.hash(&key), &key, 1, |_| (change, ()));
                assert!(stored.is_ok(), "{:?} of {length}", stored.err());
            }
        }
    });
    let stats = store.stats();
    assert!(stats.evictions > 100, "{stats:?}");
}

/// A turn that takes long, and lets others have what it does not hold, holds nobody up.
#[test]
fn a_turn_that_makes_way_holds_nobody_up() {
    let store = store(2 << 20);
    let ended = AtomicU64::new(0);
    workers(&store, |number, mut worker| match number {
        0 => {
            let mut pinned = worker.pin();
            while ended.load(Ordering::Relaxed) == 0 {
                pinned.make_way();
                thread::sleep(Duration::from_micros(100));
            }
        }
        1 => {
            let _ended = Ended(&ended);
            // Several times as much as there is memory for.
            let value = [7; 4000];
            for key in 0..4000_u64 {
                let key = key.to_le_bytes();
                let change = Change::Store(new(Value::Bytes(&value)));
                let mut pinned = worker.pin();
                let stored = pinned.update(store.hash(&key), &key, 1, |_| (change, ()));
                assert!(stored.is_ok(), "{:?}", stored.err());
            }
        }
        _ => {}
    });
    assert!(store.stats().evictions > 1000);
}

/// No write is lost: numbers that all workers add to, by CAS id or not, come out right, while the
/// table grows around them.
#[test]
fn every_change_is_made_once() {
    const ADDS: u64 = 20_000;
    const COUNTS: u64 = 8;
    let store = store(256 << 20);
    workers(&store, |number, mut worker| {
        let mut state = number + 1;
        for round in 0..ADDS {
            let mut pinned = worker.pin();
            let key = (random(&mut state) % COUNTS).to_le_bytes();
            let hash = store.hash(&key);
            let value = |item: &Item<'_>| {
                let text = std::str::from_utf8(item.value()).expect("digits");
                text.parse::<u64>().expect("digits")
            };
            if round % 2 == 0 {
                let added = pinned.update(hash, &key, 1, |item| {
                    let number = item.map_or(0, value) + 1;
                    (Change::Store(new(Value::Number { number, width: 0 })), ())
                });
                added.expect("there is room");
            } else {
                // As a client does: read, and store if the CAS id is the same still.
                loop {
                    let seen = pinned
                        .get(hash, &key, 1)
                        .map(|item| (value(&item), item.cas()));
                    let (before, cas) = seen.unwrap_or((0, 0));
                    let number = Value::Number {
                        number: before + 1,
                        width: 0,
                    };
                    let stored = pinned.update(hash, &key, 1, |item| {
                        let same = item.map_or(0, Item::cas) == cas;
                        let change = Change::Store(new(number));
                        (if same { change } else { Change::Keep }, same)
                    });
                    if stored.expect("there is room").outcome {
                        break;
                    }
                }
            }
            let other = (number << 32 | round | 1 << 60).to_le_bytes();
            let bytes = Change::Store(new(Value::Bytes(&other)));
            let stored = pinned.update(store.hash(&other), &other, 1, |_| (bytes, ()));
            stored.expect("there is room");
        }
    });
    let mut worker = store.worker().expect("the others are gone");
    let pinned = worker.pin();
    let sum: u64 = (0..COUNTS)
        .map(|key| {
            let key = key.to_le_bytes();
            let item = pinned
                .get(store.hash(&key), &key, 1)
                .expect("it was stored");
            let text = std::str::from_utf8(item.value()).expect("digits");
            text.parse::<u64>().expect("digits")
        })
        .sum();
    assert_eq!(sum, ADDS * WORKERS);
    for number in 0..WORKERS {
        for round in 0..ADDS {
            let key = (number << 32 | round | 1 << 60).to_le_bytes();
            let item = pinned
                .get(store.hash(&key), &key, 1)
                .expect("it was stored");
            assert_eq!(item.value(), key);
        }
    }
    assert_eq!(store.stats().items, COUNTS + ADDS * WORKERS);
}

/// Keys that are always there are found at each look, while the table grows and moves them and
/// others come and go, and what is read never goes back.
#[test]
fn what_is_there_is_never_missed() {
    let store = store(512 << 20);
    let stop = AtomicBool::new(false);
    let newest: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let write = |worker: &mut Worker, key: u64, number: u64| {
        let (bytes, value) = (key.to_le_bytes(), checked(key, number << 2));
        let stored = Change::Store(new(Value::Bytes(&value)));
        let updated = worker
            .pin()
            .update(store.hash(&bytes), &bytes, 1, |_| (stored, ()));
        updated.expect("there is room");
    };
    let mut first = store.worker().expect("it is the first");
    (0..64).for_each(|key| write(&mut first, key, 0));
    drop(first);
    workers(&store, |number, mut worker| match number {
        0 => {
            for key in 64..400_000 {
                write(&mut worker, key, 0);
            }
            stop.store(true, Ordering::Release);
        }
        1 => {
            let mut serial = 0;
            while !stop.load(Ordering::Acquire) {
                serial += 1;
                for key in 0..64 {
                    write(&mut worker, key, serial);
                    newest[key as usize].store(serial, Ordering::Release);
                }
            }
        }
        _ => {
            while !stop.load(Ordering::Acquire) {
                for key in 0..64_u64 {
                    let bytes = key.to_le_bytes();
                    let least = newest[key as usize].load(Ordering::Acquire);
                    let pinned = worker.pin();
                    let item = pinned.get(store.hash(&bytes), &bytes, 1);
                    let item = item.expect("it is always there");
                    check(key, &item);
                    let number = u64::from_le_bytes(item.value()[8..16].try_into().expect("8"));
                    assert!(number >> 2 >= least, "an older value than was there before");
                }
            }
        }
    });
    assert_eq!(store.stats().items, 400_000);
    assert_eq!(store.stats().evictions, 0);
}
