//! A walk through the store sees all that is there from its beginning to its end, however many
//! items come, move and go meanwhile.

use rhythm_kv::store::{Change, Marks, New, Pinned, Store, StoreOptions, Value};
use std::sync::Arc;

/// Items that are there from the beginning: the table is about to grow.
const STAY: usize = 36_000;
/// Items that come at each step of the walk, of which those of the step before go.
const COME: usize = 12;

fn set(pinned: &mut Pinned<'_>, key: &str) {
    let new = New {
        value: Value::Bytes(b"value"),
        flags: 0,
        expires: 0,
        cas: None,
        marks: Marks::default(),
    };
    let hash = pinned.store().hash(key.as_bytes());
    let stored = pinned.update(hash, key.as_bytes(), 1, |_| (Change::Store(new), ()));
    assert!(stored.is_ok());
}

fn remove(pinned: &mut Pinned<'_>, key: &str) {
    let hash = pinned.store().hash(key.as_bytes());
    let gone = pinned.update(hash, key.as_bytes(), 1, |_| (Change::Remove, ()));
    assert!(gone.is_ok());
}

#[test]
fn a_walk_sees_what_is_there_all_the_while() {
    for seed in 0..8 {
        let store = Store::new(StoreOptions {
            secret: Some([seed, 7]),
            ..StoreOptions::default()
        });
        let store = Arc::new(store.expect("memory"));
        let mut worker = Store::worker(&store).expect("a seat");
        let mut pinned = worker.pin();
        (0..STAY).for_each(|number| set(&mut pinned, &format!("stays-{number}")));
        let mut seen = vec![false; STAY];
        let mut bucket = 0;
        loop {
            let is_there = pinned.walk(bucket, |item| {
                let key = std::str::from_utf8(item.key()).expect("text");
                if let Some(number) = key.strip_prefix("stays-") {
                    seen[number.parse::<usize>().expect("a number")] = true;
                }
            });
            if !is_there {
                break;
            }
            for number in 0..COME {
                set(&mut pinned, &format!("comes-{bucket}-{number}"));
            }
            // Twice as many are there as the walk went on, until the table is full.
            if let Some(before) = bucket.checked_sub(400) {
                (0..COME)
                    .for_each(|number| remove(&mut pinned, &format!("comes-{before}-{number}")));
            }
            bucket += 1;
        }
        let missed = seen.iter().filter(|seen| !**seen).count();
        assert_eq!(missed, 0, "seed {seed}: of {STAY}");
        assert_eq!(store.stats().evictions, 0);
    }
}
