//! Gets in batches from a store far larger than the caches, with and without prefetching: what one
//! core does when commands are probed step by step, and what when one after the other.
//!
//!     cargo run --release -p rhythm-kv --example store_gets -- [KEYS [BATCH [WORKERS]]]
//!
//! Keys of 16 bytes, values of 32. The two ways alternate; the figures are medians of 5 rounds, in
//! CPU time, for the machine may be busy with other things.

use rhythm_kv::store::{Change, Hash, Marks, New, Store, StoreOptions, Value, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROUNDS: usize = 5;
/// Keys asked for in a round.
const GETS: u64 = 1_000_000;

/// The CPU time of this thread.
fn time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"0000000000000000";
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Sets all keys, and tells the time.
fn fill(worker: &mut Worker, keys: u64) -> Duration {
    let start = time();
    let store = Arc::clone(worker.store());
    let (mut pieces, mut before) = (Vec::new(), start);
    for number in 0..keys {
        let key = key(number);
        let value = [number as u8; 32];
        let new = New {
            value: Value::Bytes(&value),
            flags: 0,
            expires: 0,
            cas: None,
            marks: Marks::default(),
        };
        let stored = (worker.pin()).update(store.hash(&key), &key, 1, |_| (Change::Store(new), ()));
        stored.expect("there is room");
        if number % 64 == 63 {
            let now = time();
            pieces.push(now.saturating_sub(before));
            before = now;
        }
    }
    let took = time().saturating_sub(start);
    pieces.sort();
    let at = |of: usize| pieces[(pieces.len() - 1) * of / 10_000];
    println!(
        "64 sets: median {:?}, p99 {:?}, p99.9 {:?}, p99.99 {:?}, longest {:?}",
        at(5_000),
        at(9_900),
        at(9_990),
        at(9_999),
        at(10_000)
    );
    took
}

/// Gets random keys in batches, and tells the time.
fn get(worker: &mut Worker, keys: u64, batch: usize, prefetches: bool, seed: u64) -> Duration {
    let store = Arc::clone(worker.store());
    let mut state = seed | 1;
    let (mut wanted, mut out): (Vec<([u8; 16], Hash)>, Vec<u8>) = (Vec::new(), Vec::new());
    let start = time();
    for _ in 0..GETS / batch as u64 {
        wanted.clear();
        out.clear();
        for _ in 0..batch {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let key = key(state % keys);
            wanted.push((key, store.hash(&key)));
        }
        let pinned = worker.pin();
        if prefetches {
            wanted.iter().for_each(|(_, hash)| pinned.prefetch(*hash));
            wanted
                .iter()
                .for_each(|(_, hash)| pinned.prefetch_item(*hash));
        }
        for (key, hash) in &wanted {
            let item = pinned.get(*hash, key, 2).expect("it was stored");
            item.access(2);
            out.extend_from_slice(item.value());
        }
    }
    assert_eq!(out.len(), batch * 32);
    time().saturating_sub(start)
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"));
    let keys: u64 = arguments.next().unwrap_or(20_000_000);
    let batch = arguments.next().unwrap_or(64) as usize;
    let workers = arguments.next().unwrap_or(1) as usize;
    let options = StoreOptions {
        memory: 2 << 30,
        workers,
        ..StoreOptions::default()
    };
    let store = Arc::new(Store::new(options).expect("there is memory"));
    let mut all: Vec<Worker> = (0..workers)
        .map(|_| store.worker().expect("there are as many"))
        .collect();
    let filled = AtomicBool::new(false);
    let took = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !filled.load(Ordering::Relaxed)
                && let Some(has_more) = store.prepare()
            {
                let wait = if has_more { 1 } else { 5 };
                std::thread::sleep(Duration::from_millis(wait));
            }
        });
        let took = fill(&mut all[0], keys);
        filled.store(true, Ordering::Relaxed);
        took
    });
    let stats = store.stats();
    let a_key = (stats.memory_used + stats.table_bytes) as f64 / keys as f64;
    println!(
        "{keys} sets: {:.0} ns each, {a_key:.1} bytes a key",
        nanoseconds(took, keys)
    );
    println!("{} evictions, {} slots", stats.evictions, stats.table_slots);
    // Once to warm up and to note the accesses.
    get(&mut all[0], keys, batch, true, 99);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS as u64 {
        for (prefetches, times) in [false, true].into_iter().zip(&mut times) {
            let seed = 1000 + round * 2;
            let longest = std::thread::scope(|scope| {
                let each = all.iter_mut().zip(1..).map(|(worker, number)| {
                    let seed = seed * 1000 + number;
                    scope.spawn(move || get(worker, keys, batch, prefetches, seed))
                });
                let each: Vec<_> = each.collect();
                let times = each
                    .into_iter()
                    .map(|thread| thread.join().expect("it ran"));
                times.max().unwrap_or_default()
            });
            times.push(nanoseconds(longest, GETS));
        }
    }
    for (way, times) in ["without prefetching", "with prefetching"]
        .iter()
        .zip(&mut times)
    {
        times.sort_by(f64::total_cmp);
        let (least, most) = (times[0], times[ROUNDS - 1]);
        println!(
            "gets of {batch} keys {way}: {:.0} ns a key and worker ({least:.0} to {most:.0})",
            times[ROUNDS / 2]
        );
    }
}

fn nanoseconds(time: Duration, of: u64) -> f64 {
    time.as_nanos() as f64 / of as f64
}
