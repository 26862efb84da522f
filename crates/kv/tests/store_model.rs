//! The store against a plain map: random histories of all changes, with expiry, flushes and time
//! going on. What the store shows is what the map has; where items may be evicted it may show
//! nothing instead, but never anything else. Some stores are in a memory file, and are now and then
//! found again by the next one, as after a restart.
//!
//! `KV_MODEL_SEEDS=1000` runs more histories, `KV_MODEL_FIRST` begins elsewhere.

use rhythm_kv::store::{
    Change, Item, Marks, New, NotLeft, NotStored, Store, StoreOptions, Touch, Unkept, Value, Worker,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs, process};

/// Random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ (mixed >> 31)) * u128::from(bound)) >> 64) as u64
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: Vec<u8>,
    flags: u32,
    cas: u64,
    expires: u32,
    accessed: u32,
    marks: Marks,
}

impl Entry {
    fn of(item: &Item<'_>) -> Entry {
        Entry {
            value: item.value().to_vec(),
            flags: item.flags(),
            cas: item.cas(),
            expires: item.expires(),
            accessed: item.last_access(),
            marks: item.marks(),
        }
    }
}

/// CAS ids that clients chose.
const OWN: u64 = 1 << 63;

/// The Unix time of second 0.
const ERA: u64 = 1_700_000_000;

/// What a history goes through.
#[derive(Clone, Copy, Debug)]
struct Plan {
    memory: usize,
    evict: bool,
    keys: u64,
    value_max: u64,
    steps: u64,
    /// In how many of a million steps the store is left, and found again.
    restarts: u64,
}

struct History {
    plan: Plan,
    random: Random,
    /// Where the items are, if that is a file.
    file: Option<PathBuf>,
    /// None: the store is being found again.
    worker: Option<Worker>,
    model: HashMap<Vec<u8>, Entry>,
    /// Of this second and before nothing is left.
    flushed: u32,
    /// The same, from that second on.
    flush: Option<u32>,
    now: u32,
    lost: u64,
    refused: u64,
}

impl History {
    fn new(plan: Plan, seed: u64) -> History {
        let file = (plan.restarts > 0).then(|| {
            let name = format!("rhythm-kv-model-{}-{}-{seed}", process::id(), plan.memory);
            // In memory, where there is such a place: it is synced often.
            let memory = PathBuf::from("/dev/shm");
            let folder = if memory.is_dir() {
                memory
            } else {
                env::temp_dir()
            };
            folder.join(name)
        });
        let mut history = History {
            plan,
            random: Random(seed),
            file,
            worker: None,
            model: HashMap::new(),
            flushed: 0,
            flush: None,
            now: 10,
            lost: 0,
            refused: 0,
        };
        history.open();
        history
    }

    /// Makes the store, or finds it again.
    fn open(&mut self) {
        let options = StoreOptions {
            memory: self.plan.memory,
            evict: self.plan.evict,
            item_max: 64 << 20,
            secret: Some([self.random.below(u64::MAX), 1]),
            ..StoreOptions::default()
        };
        let store = match &self.file {
            None => Store::new(options).expect("there is memory"),
            Some(path) => {
                let (store, opened) = Store::open(options, path, ERA + u64::from(self.now))
                    .expect("the file is there");
                match self.model.is_empty() {
                    true => assert!(
                        matches!(opened.items, Ok(0) | Err(Unkept::New)),
                        "{opened:?}"
                    ),
                    false => {
                        assert_eq!(opened.now, self.now);
                        self.check_found(opened.items.expect("it was left"));
                    }
                }
                store
            }
        };
        self.worker = Some(Arc::new(store).worker().expect("it is the first"));
    }

    fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("it is there between restarts")
    }

    /// Leaves the store, as time passes, and finds it again.
    fn restart(&mut self) {
        let store = Arc::clone(self.worker().store());
        let unix = ERA + u64::from(self.now);
        let used = store.leave_items(self.now, unix);
        assert!(matches!(used, Err(NotLeft::InUse)), "{used:?}");
        self.worker = None;
        let items = store.stats().items;
        let kept = store.leave_items(self.now, unix).expect("it can be left");
        // There is room for all.
        assert_eq!((kept.items, kept.lost), (items, 0), "{:?}", self.plan);
        drop(store);
        self.now += self.random.below(4) as u32;
        self.open();
        for number in 0..self.plan.keys {
            self.look_up(&Self::key(number));
        }
    }

    /// So many items were found again.
    fn check_found(&self, items: u64) {
        let valid = self.model.values().filter(|entry| self.is_valid(entry));
        let valid = valid.count() as u64;
        match self.plan.evict {
            // What was evicted may not be known of yet.
            true => assert!(items <= valid, "{items} of {valid}: {:?}", self.plan),
            false => assert_eq!(items, valid, "{:?}", self.plan),
        }
    }

    fn any_key(&mut self) -> Vec<u8> {
        let number = self.random.below(self.plan.keys);
        Self::key(number)
    }

    fn key(key: u64) -> Vec<u8> {
        // Keys of many lengths, the longest of all among them.
        let length = 4 + key as usize * 7 % 247;
        let mut bytes = format!("{key:04}").into_bytes();
        bytes.resize(length, b'k');
        bytes
    }

    fn bytes(&mut self) -> Vec<u8> {
        // Mostly short, seldom as long as may be.
        let most = match self.random.below(10) {
            0 => self.plan.value_max,
            1..4 => self.plan.value_max.min(3000),
            _ => 60,
        };
        let length = self.random.below(most + 1) as usize;
        let first = self.random.below(256) as u8;
        (0..length).map(|i| first.wrapping_add(i as u8)).collect()
    }

    fn expires(&mut self) -> u32 {
        match self.random.below(4) {
            0 | 1 => 0,
            2 => self.now + self.random.below(20) as u32,
            _ => self.now + self.random.below(5000) as u32,
        }
    }

    fn is_valid(&self, entry: &Entry) -> bool {
        let due = self.flush.filter(|until| *until <= self.now).unwrap_or(0);
        let flushed = entry.accessed <= due.max(self.flushed);
        (entry.expires == 0 || entry.expires > self.now) && !flushed
    }

    /// Compares what the store has of a key with what the map has, which forgets what was evicted.
    fn compare(&mut self, key: &[u8], item: Option<&Entry>) {
        let entry = self.model.get(key).filter(|entry| self.is_valid(entry));
        match (entry, item) {
            (Some(entry), Some(item)) => {
                let head = |entry: &Entry| (entry.value.len(), entry.value.first().copied());
                assert_eq!(head(item), head(entry), "{:?} at {}", self.plan, self.now);
                assert!(item == entry, "{:?} at {}", self.plan, self.now);
            }
            (None, None) => {}
            (None, Some(_)) => panic!("shows what is gone: {:?} at {}", self.plan, self.now),
            (Some(_), None) => {
                assert!(self.plan.evict, "lost: {:?} at {}", self.plan, self.now);
                self.lost += 1;
            }
        }
        if item.is_none() {
            self.model.remove(key);
        }
    }

    fn get(&mut self) {
        let key = self.any_key();
        let hash = self.worker().store().hash(&key);
        let accesses = self.random.is(70);
        let now = self.now;
        let pinned = self.worker().pin();
        pinned.prefetch(hash);
        pinned.prefetch_item(hash);
        let item = pinned.get(hash, &key, now);
        let seen = item.as_ref().map(Entry::of);
        if accesses && let Some(item) = item {
            item.access(now);
        }
        drop(pinned);
        self.compare(&key, seen.as_ref());
        if accesses && let Some(entry) = self.model.get_mut(&key) {
            (entry.accessed, entry.marks.fetched) = (now, true);
        }
    }

    /// Compares a key without an access.
    fn look_up(&mut self, key: &[u8]) {
        let hash = self.worker().store().hash(key);
        let now = self.now;
        let pinned = self.worker().pin();
        let item = pinned.get(hash, key, now).as_ref().map(Entry::of);
        drop(pinned);
        self.compare(key, item.as_ref());
    }

    fn write(&mut self) {
        let key = self.any_key();
        let hash = self.worker().store().hash(&key);
        let bytes = self.bytes();
        let (number, width) = (self.random.below(u64::MAX), self.random.below(30) as usize);
        let kind = self.random.below(12);
        let fits = self.random.is(50);
        let new = New {
            value: match kind {
                0..6 => Value::Bytes(&bytes),
                6 => Value::Appended(&bytes),
                7 => Value::Prepended(&bytes),
                8 => Value::Number { number, width },
                _ => Value::Same,
            },
            flags: if fits { 0 } else { number as u32 },
            expires: self.expires(),
            cas: (number % 10 == 0).then_some(number | OWN),
            marks: Marks {
                stale: number % 7 == 0,
                won: number % 11 == 0,
                fetched: number % 13 < 6,
                encoded: number % 17 < 8,
            },
        };
        let touch = Touch {
            expires: self.expires(),
            wins: number % 5 == 0,
            fetches: number % 3 == 0,
        };
        let decide = |item: Option<&Item<'_>>| {
            let seen = item.map(Entry::of);
            let change = match (kind, item) {
                (6 | 7 | 9, None) => Change::Keep,
                (10, _) => Change::Touch(touch),
                (11, Some(item)) if fits => Change::Touch(Touch {
                    expires: item.expires(),
                    ..touch
                }),
                (11, _) => Change::Remove,
                _ => Change::Store(new),
            };
            (change, (change, seen))
        };
        let now = self.now;
        let done = self.worker().pin().update(hash, &key, now, decide);
        match done {
            Ok(updated) => {
                let (change, seen) = updated.outcome;
                self.compare(&key, seen.as_ref());
                self.apply(&key, change, updated.cas);
            }
            Err(not) => {
                assert_eq!(not, NotStored::OutOfMemory);
                self.refused += 1;
            }
        }
    }

    /// Changes the map as the store was.
    fn apply(&mut self, key: &[u8], change: Change<'_>, cas: u64) {
        let entry = self.model.get(key).cloned();
        match (change, entry) {
            (Change::Remove, _) => drop(self.model.remove(key)),
            (Change::Touch(touch), Some(entry)) => {
                let marks = Marks {
                    won: entry.marks.won || touch.wins,
                    fetched: entry.marks.fetched || touch.fetches,
                    ..entry.marks
                };
                let accessed = match touch.fetches {
                    true => self.now,
                    false => entry.accessed,
                };
                let entry = Entry {
                    expires: touch.expires,
                    accessed,
                    marks,
                    ..entry
                };
                self.model.insert(key.into(), entry);
            }
            (Change::Store(new), entry) => {
                let before = entry.as_ref().map_or(&[][..], |entry| &entry.value);
                let (value, keeps) = match new.value {
                    Value::Bytes(bytes) => (bytes.to_vec(), false),
                    Value::Appended(bytes) => ([before, bytes].concat(), false),
                    Value::Prepended(bytes) => ([bytes, before].concat(), false),
                    Value::Same => (before.to_vec(), true),
                    Value::Number { number, width } => {
                        (format!("{number:<width$}").into_bytes(), false)
                    }
                };
                let kept = entry.as_ref().filter(|_| keeps);
                let entry = Entry {
                    value,
                    flags: new.flags,
                    cas: new.cas.unwrap_or(cas),
                    expires: new.expires,
                    accessed: kept.map_or(self.now, |entry| entry.accessed),
                    marks: new.marks,
                };
                self.model.insert(key.into(), entry);
            }
            _ => {}
        }
    }

    fn flush(&mut self) {
        if self.flushed == self.now || self.flush == Some(self.now) {
            // What was stored in this second would come back.
            self.now += 1;
        }
        let now = self.now;
        if let Some(until) = self.flush.take_if(|until| *until <= now) {
            self.flushed = self.flushed.max(until);
        }
        // memcached's flush comes about in the second before the one that it is asked for.
        let until = match self.random.is(50) {
            true => now - 1,
            false => now + self.random.below(30) as u32,
        };
        self.worker().store().flush_all(until + 1, now);
        if until <= now {
            self.flushed = self.flushed.max(until);
            self.flush = None;
            // What is of this very second is told by its CAS id.
            self.model.retain(|_, entry| entry.cas >= OWN);
        } else {
            self.flush = Some(until);
        }
    }

    fn run(&mut self) {
        for _ in 0..self.plan.steps {
            if self.random.below(1_000_000) < self.plan.restarts {
                self.restart();
            }
            match self.random.below(1000) {
                0..450 => self.get(),
                450..980 => self.write(),
                980..998 => self.now += self.random.below(3) as u32,
                998 => {
                    let now = self.now;
                    self.worker().pin().tend(now);
                }
                _ if self.random.is(10) => self.flush(),
                _ => {}
            }
            let used = self.worker().store().stats().memory_used;
            assert!(used <= self.plan.memory as u64, "{used} of {:?}", self.plan);
        }
        for key in self.model.keys().cloned().collect::<Vec<_>>() {
            self.look_up(&key);
        }
        // All that was counted in is counted out.
        for number in 0..self.plan.keys {
            let key = Self::key(number);
            let hash = self.worker().store().hash(&key);
            let now = self.now;
            let removed = (self.worker().pin()).update(hash, &key, now, |_| (Change::Remove, ()));
            removed.expect("it needs no room");
        }
        let stats = self.worker().store().stats();
        assert_eq!((stats.items, stats.bytes), (0, 0));
    }
}

impl Drop for History {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            // It is another test's concern that they are there.
            let _ = fs::remove_file(path);
            let _ = fs::remove_file(path.with_extension("meta"));
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Runs histories of a plan, and tells how many items were lost and writes refused.
fn run(plan: Plan) -> (u64, u64) {
    let first = number("KV_MODEL_FIRST", 0);
    let (mut lost, mut refused) = (0, 0);
    for seed in first..first + number("KV_MODEL_SEEDS", 6) {
        let mut history = History::new(plan, seed);
        history.run();
        lost += history.lost;
        refused += history.refused;
    }
    (lost, refused)
}

#[test]
fn with_room_for_all_nothing_is_lost() {
    let plan = Plan {
        memory: 256 << 20,
        evict: true,
        keys: 2000,
        value_max: 100_000,
        steps: 40_000,
        restarts: 0,
    };
    // It would be lost only by eviction.
    assert_eq!(
        run(Plan {
            evict: false,
            ..plan
        }),
        (0, 0)
    );
}

#[test]
fn where_items_make_room_none_is_wrong() {
    let plan = Plan {
        memory: 2 << 20,
        evict: true,
        keys: 5000,
        value_max: 20_000,
        steps: 40_000,
        restarts: 0,
    };
    let (lost, _) = run(plan);
    assert!(lost > 1000, "there was no need to evict: {lost}");
}

#[test]
fn where_items_may_not_make_room_writes_are_refused_and_nothing_else() {
    let plan = Plan {
        memory: 2 << 20,
        evict: false,
        keys: 5000,
        value_max: 20_000,
        steps: 40_000,
        restarts: 0,
    };
    let (_, refused) = run(plan);
    assert!(refused > 1000, "there was room for all: {refused}");
}

#[test]
fn long_values_make_room_one_for_the_other() {
    let plan = Plan {
        memory: 16 << 20,
        evict: true,
        keys: 100,
        value_max: 3_000_000,
        steps: 5_000,
        restarts: 0,
    };
    let (lost, refused) = run(plan);
    assert!(lost > 100, "there was no need to evict: {lost}");
    assert_eq!(refused, 0);
}

/// As many steps in all as there are in a million, in each kind of store.
#[test]
fn what_was_left_is_found_again_and_nothing_else() {
    for (memory, keys, value_max, evict) in [
        // With room for all, and long values among them, so that not one may be lost.
        (256 << 20, 300, 300_000, false),
        // Where items make room, and where they may not.
        (2 << 20, 5000, 20_000, true),
        (2 << 20, 5000, 20_000, false),
        // Where long values do.
        (16 << 20, 300, 1_000_000, true),
    ] {
        run(Plan {
            memory,
            evict,
            keys,
            value_max,
            steps: 40_000,
            restarts: 400,
        });
    }
}
