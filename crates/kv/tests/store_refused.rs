//! A system that refuses memory for a long value: the write is refused, and all goes on. A process
//! of its own, since the limit is on all that it has.

use rhythm_kv::store::{Change, Marks, New, NotStored, Store, StoreOptions, Value, Worker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;

/// Far more than is free in what an allocator has at hand.
const LONG: usize = 64 << 20;

/// Bytes of addresses that this process has.
fn addresses() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmSize:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .expect("the line is there");
    kib.parse::<u64>().expect("a number") << 10
}

fn set(worker: &mut Worker, key: &[u8], value: &[u8]) -> Result<u64, NotStored> {
    let new = New {
        value: Value::Bytes(value),
        flags: 0,
        expires: 0,
        cas: None,
        marks: Marks::default(),
    };
    let hash = worker.store().hash(key);
    let updated = (worker.pin()).update(hash, key, 1, |_| (Change::Store(new), ()));
    updated.map(|updated| updated.cas)
}

fn length(worker: &mut Worker, key: &[u8]) -> Option<usize> {
    let hash = worker.store().hash(key);
    let pinned = worker.pin();
    (pinned.get(hash, key, 1)).map(|item| item.value().len())
}

#[test]
fn what_the_system_has_no_memory_for_is_refused() {
    let options = StoreOptions {
        memory: 2 * LONG,
        item_max: 2 * LONG,
        ..StoreOptions::default()
    };
    let store = Arc::new(Store::new(options).expect("there is memory"));
    let mut worker = store.worker().expect("it is the first");
    let value = vec![7; LONG];
    set(&mut worker, b"long", b"short yet").expect("there is room");

    let before = getrlimit(Resource::As);
    let limit = Rlimit {
        current: Some(addresses() + (LONG / 2) as u64),
        ..before
    };
    setrlimit(Resource::As, limit).expect("it may be lowered");
    let refused = set(&mut worker, b"long", &value);
    let others = set(&mut worker, b"other", b"value");
    setrlimit(Resource::As, before).expect("it may be raised to what it was");

    assert_eq!(refused, Err(NotStored::OutOfMemory));
    assert_eq!(store.stats().refused, 1);
    assert!(others.is_ok(), "the store goes on: {others:?}");
    assert_eq!(length(&mut worker, b"long"), Some(9), "nothing changed");
    set(&mut worker, b"long", &value).expect("the system has memory again");
    assert_eq!(length(&mut worker, b"long"), Some(LONG));
}
