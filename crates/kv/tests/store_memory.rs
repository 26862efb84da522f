//! What a key costs beside key and value: at most 32 bytes, with table slot, CAS id, flags, expiry
//! and last access. A process of its own, so that its resident memory can be looked at.

use rhythm_kv::store::{Change, Marks, New, Store, StoreOptions, Value};
use std::sync::Arc;

const KEYS: u64 = 1_000_000;
const KEY: u64 = 16;
const VALUE: u64 = 32;

/// Memory comes in pages of 2 MiB, of which the last of the heap and of the table are used in part.
const PAGES: u64 = 2 * (2 << 20);

/// Bytes of this process that are resident.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .expect("the line is there");
    kib.parse::<u64>().expect("a number") << 10
}

/// Fills a store with keys of these flags and this expiry, and tells its bytes a key.
fn bytes_a_key(flags: u32, expires: u32) -> (u64, u64) {
    let before = resident();
    let options = StoreOptions {
        memory: 1 << 30,
        ..StoreOptions::default()
    };
    let store = Arc::new(Store::new(options).expect("there is memory"));
    let mut worker = store.worker().expect("it is the first");
    for number in 0..KEYS {
        let key = format!("{number:016}");
        let new = New {
            value: Value::Bytes(&[number as u8; VALUE as usize]),
            flags,
            expires,
            cas: None,
            marks: Marks::default(),
        };
        let hash = store.hash(key.as_bytes());
        let stored = (worker.pin()).update(hash, key.as_bytes(), 1, |_| (Change::Store(new), ()));
        assert!(stored.expect("there is room").cas > 0);
    }
    let stats = store.stats();
    assert_eq!((stats.items, stats.evictions), (KEYS, 0));
    let counted = (stats.memory_used + stats.table_bytes) / KEYS;
    (counted, (resident() - before - PAGES) / KEYS)
}

#[test]
fn a_key_costs_at_most_32_bytes() {
    for (what, flags, expires) in [("nothing more", 0, 0), ("flags and expiry", 7, 1000)] {
        let (counted, resident) = bytes_a_key(flags, expires);
        println!("with {what}: {counted} bytes a key, {resident} resident");
        assert!(
            counted - KEY - VALUE <= 32,
            "{counted} bytes a key with {what}"
        );
        assert!(
            resident - KEY - VALUE <= 32,
            "{resident} resident bytes a key with {what}"
        );
    }
}
