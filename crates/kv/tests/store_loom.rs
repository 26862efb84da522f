//! Models of the store's table, segments and epochs, in which loom tries every interleaving of a
//! few threads (up to a bound on preemptions), with every value a weakly ordered memory may show
//! them.
//!
//! The files of `src/store` are compiled once more here, with loom's atomics in place of the
//! processor's, so the models run with the ordinary tests: `cargo test -p rhythm-kv --test
//! store_loom`. What an item is, the models know themselves: location n is an item with the hash
//! that a list says, so that a table that shows a wrong one is found out.
#![allow(dead_code, unreachable_pub, missing_docs, unsafe_code)]

#[path = "store_loom/atomic.rs"]
mod atomic;
#[path = "store_loom/chunks.rs"]
mod chunks;
#[path = "../src/store/epoch.rs"]
mod epoch;
#[path = "../src/store/hash.rs"]
mod hash;
#[path = "../src/store/segments/segment.rs"]
mod segment;
#[path = "../src/store/table/mod.rs"]
mod table;

use atomic::{AtomicU32, Ordering};
use epoch::Epochs;
use hash::Hash;
use loom::sync::Arc;
use loom::thread;
use segment::Segment;
use table::{Oracle, Table};

/// Runs `model` in every interleaving with at most `preemptions` switches away from a thread that
/// could have gone on. Most errors between threads need one or two.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// A hash with these halves: of each the low bits name a bucket. The highest bits are the tag.
const fn hash(first: u32, second: u32, tag: u8) -> Hash {
    Hash(first as u64 | (second as u64) << 32 | (tag as u64) << 56)
}

/// The items of a model: location n has the n-th hash.
struct Model {
    table: Table,
    hashes: Vec<Hash>,
}

impl Model {
    /// A table of four buckets with the items of these hashes.
    fn new(hashes: &[Hash]) -> Arc<Model> {
        let table = Table::new().expect("there is memory");
        let model = Model {
            table,
            hashes: hashes.to_vec(),
        };
        (0..hashes.len() as u32).for_each(|location| assert!(model.insert(location)));
        Arc::new(model)
    }

    fn insert(&self, location: u32) -> bool {
        let mut locked = self.table.lock(self.hash_of(location));
        let slot = locked.vacancy(self);
        slot.inspect(|slot| locked.fill(*slot, location)).is_some()
    }

    /// Whether the item at `location` is found; a wrong one must not be.
    fn finds(&self, location: u32) -> bool {
        let of = self.hash_of(location);
        let found = self
            .table
            .find(of, |at| (self.hash_of(at) == of).then_some(at));
        found.inspect(|at| assert_eq!(*at, location)).is_some()
    }

    fn locations(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.table.locations().collect();
        all.sort_unstable();
        all
    }
}

impl Oracle for Model {
    fn hash_of(&self, location: u32) -> Hash {
        self.hashes[location as usize]
    }

    fn prefetch(&self, _location: u32) {}
}

#[test]
fn a_split_hides_no_item() {
    // Bucket 0 is split into 0 and 4: the second item moves.
    check(3, || {
        let model = Model::new(&[hash(0, 0, 1), hash(4, 4, 2)]);
        let other = Arc::clone(&model);
        let grower = thread::spawn(move || {
            assert!(other.table.grow(&*other));
        });
        assert!(model.finds(1), "it is there all the time");
        grower.join().unwrap();
        assert!(model.finds(0) && model.finds(1));
        assert_eq!(model.locations(), [0, 1]);
    });
}

#[test]
fn a_split_and_a_write_do_not_miss_each_other() {
    check(2, || {
        let model = Model::new(&[hash(4, 4, 2)]);
        let other = Arc::clone(&model);
        let grower = thread::spawn(move || {
            assert!(other.table.grow(&*other));
        });
        let mut locked = model.table.lock(model.hash_of(0));
        let slot = locked
            .find(|location| location == 0)
            .expect("it is there all the time");
        locked.remove(slot);
        drop(locked);
        grower.join().unwrap();
        assert!(!model.finds(0));
        assert_eq!(model.locations(), [0; 0]);
        assert_eq!(model.table.items(), 0);
    });
}

#[test]
fn a_move_to_the_other_bucket_hides_no_item() {
    check(2, || {
        // Buckets 0 and 1 are full of items for both, but for one in bucket 0 that may lie in
        // bucket 2, where it is looked for first.
        let mut hashes = vec![hash(2, 0, 9)];
        hashes.extend((1..24).map(|location| hash(0, 1, 100 + location)));
        let model = Model::new(&hashes);
        let other = Arc::clone(&model);
        let mover = thread::spawn(move || {
            let locked = other.table.lock(hash(0, 1, 1));
            assert!(locked.vacancy(&*other).is_some());
        });
        assert!(model.finds(0), "it is there all the time");
        mover.join().unwrap();
        assert!(model.finds(0));
        assert_eq!(model.locations().len(), 24);
    });
}

#[test]
fn of_two_that_insert_a_key_one_finds_the_others() {
    check(3, || {
        let model = Model::new(&[]);
        let insert = |model: &Model, location: u32| {
            let mut locked = model.table.lock(hash(1, 3, 5));
            if locked.find(|_| true).is_some() {
                return 0;
            }
            let slot = locked.vacancy(model).expect("there is room");
            locked.fill(slot, location);
            1
        };
        let other = Arc::clone(&model);
        let writer = thread::spawn(move || insert(&other, 7));
        let inserted = insert(&model, 8);
        assert_eq!(inserted + writer.join().unwrap(), 1);
        assert_eq!((model.table.items(), model.locations().len()), (1, 1));
    });
}

#[test]
fn what_a_turn_found_is_not_used_again_before_its_end() {
    check(3, || {
        // What the table shows, and whether its memory was used again.
        let shared = Arc::new((Epochs::new(2), AtomicU32::new(1), AtomicU32::new(0)));
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let (epochs, shown, used) = &*other;
            for _ in 0..2 {
                epochs.pin(0);
                if shown.load(Ordering::Acquire) == 1 {
                    assert_eq!(
                        used.load(Ordering::Relaxed),
                        0,
                        "it was used while it was read"
                    );
                }
                epochs.unpin(0);
            }
        });
        let (epochs, shown, used) = &*shared;
        epochs.pin(1);
        shown.store(0, Ordering::Release);
        let stamp = epochs.retire();
        epochs.pin(1);
        if stamp <= epochs.free() {
            used.store(1, Ordering::Relaxed);
        }
        epochs.unpin(1);
        reader.join().unwrap();
        assert!(stamp <= epochs.free(), "without turns, all is free");
    });
}

#[test]
fn what_another_thread_retired_is_kept_too() {
    check(2, || {
        let shared = Arc::new((Epochs::new(1), AtomicU32::new(1), AtomicU32::new(0)));
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let (epochs, shown, used) = &*other;
            epochs.pin(0);
            if shown.load(Ordering::Acquire) == 1 {
                assert_eq!(
                    used.load(Ordering::Relaxed),
                    0,
                    "it was used while it was read"
                );
            }
            epochs.unpin(0);
        });
        // One thread asks what is free, while another one retires; the stamps meet in between.
        let other = Arc::clone(&shared);
        let retired = loom::sync::Arc::new(loom::sync::Mutex::new(None));
        let list = Arc::clone(&retired);
        let retirer = thread::spawn(move || {
            other.1.store(0, Ordering::Release);
            *list.lock().unwrap() = Some(other.0.retire());
        });
        let free = shared.0.free();
        if let Some(stamp) = *retired.lock().unwrap()
            && stamp <= free
        {
            shared.2.store(1, Ordering::Relaxed);
        }
        retirer.join().unwrap();
        reader.join().unwrap();
    });
}

/// As long as a worker is pinned anew in the midst of a turn, it counts as pinned.
#[test]
fn who_is_pinned_anew_is_pinned_all_the_time() {
    check(3, || {
        let shared = Arc::new((Epochs::new(2), AtomicU32::new(1), AtomicU32::new(0)));
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let (epochs, shown, used) = &*other;
            for _ in 0..2 {
                epochs.pin(0);
                if shown.load(Ordering::Acquire) == 1 {
                    let used = used.load(Ordering::Relaxed);
                    assert_eq!(used, 0, "it was used while it was read");
                }
            }
            epochs.unpin(0);
        });
        let (epochs, shown, used) = &*shared;
        epochs.pin(1);
        shown.store(0, Ordering::Release);
        let stamp = epochs.retire();
        epochs.want();
        epochs.pin(1);
        if stamp <= epochs.free() {
            used.store(1, Ordering::Relaxed);
        }
        epochs.unpin(1);
        reader.join().unwrap();
        assert!(stamp <= epochs.free(), "without turns, all is free");
    });
}

/// A segment is retired by who sees that all of it is dead, and not by those who took its items out
/// of the table.
#[test]
fn a_segment_that_is_dead_is_used_again_only_when_nobody_reads_its_items() {
    check(2, || {
        let items = [AtomicU32::new(1), AtomicU32::new(1)];
        let used_again = AtomicU32::new(0);
        let shared = Arc::new((Epochs::new(3), Segment::new(), items, used_again));
        let (epochs, segment, items, used_again) = &*shared;
        segment.open(0);
        for _ in items {
            assert!(segment.take(1, 2).is_some());
            segment.written(0, 0);
        }
        segment.seal();
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let (epochs, _, items, used_again) = &*other;
            epochs.pin(0);
            if items[0].load(Ordering::Acquire) == 1 {
                let used = used_again.load(Ordering::Relaxed);
                assert_eq!(used, 0, "it was used while an item was read");
            }
            epochs.unpin(0);
        });
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            let (epochs, segment, items, _) = &*other;
            epochs.pin(1);
            // As the table clears a slot, and as the segment is told.
            items[0].store(0, Ordering::Release);
            segment.died(1, 0);
            epochs.unpin(1);
        });
        epochs.pin(2);
        items[1].store(0, Ordering::Release);
        segment.died(1, 0);
        if segment.dead() >= segment.used() {
            let stamp = epochs.retire();
            epochs.pin(2);
            if stamp <= epochs.free() {
                used_again.store(1, Ordering::Relaxed);
            }
        }
        epochs.unpin(2);
        reader.join().unwrap();
        writer.join().unwrap();
        assert!(segment.dead() >= segment.used());
    });
}

#[test]
fn a_quiet_segment_is_written_to_its_end() {
    check(3, || {
        let cells = [AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)];
        let shared = Arc::new((Segment::new(), cells));
        shared.0.open(0);
        let write = |(segment, cells): &(Segment, [AtomicU32; 3]), expires: u32| {
            let at = segment.take(1, 3);
            if let Some(at) = at {
                cells[at as usize].store(expires, Ordering::Relaxed);
                segment.written(expires, 0);
            }
        };
        let writers: Vec<_> = (1..3)
            .map(|expires| {
                let other = Arc::clone(&shared);
                thread::spawn(move || write(&other, expires))
            })
            .collect();
        let (segment, cells) = &*shared;
        segment.seal();
        if let Some(used) = segment.quiet() {
            let written = (0..used).map(|at| cells[at as usize].load(Ordering::Relaxed));
            let last = written
                .inspect(|cell| assert_ne!(*cell, 0, "not written"))
                .max();
            assert!(segment.expires() >= last.unwrap_or(0));
        }
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        assert_eq!(segment.take(1, 3), None, "it is sealed");
        assert!(segment.quiet().is_some());
    });
}
