//! The items: what a key has, until it expires, is removed or has to make room.
//!
//! A store is shared by all workers. It does no I/O and reads no clock: the time is an argument, in
//! seconds since some start, at least 1 (memcached's relative time). A worker goes through a store
//! in turns:
//!
//! ```text
//!   let mut worker = Store::worker(&store)?      once a thread
//!   let mut pinned = worker.pin();               once a turn: items seen now stay readable
//!   let hash = store.hash(key);                  for each command of the turn, step by step:
//!   pinned.prefetch(hash);                         the buckets where the key may be
//!   pinned.prefetch_item(hash);                    the items there that look like it
//!   pinned.get(hash, key, now)                     -> the item, borrowed from the turn
//!   pinned.update(hash, key, now, |item| ...)      every write: decide from what is there
//!   drop(pinned)                                 before the loop waits
//! ```
//!
//! Items never change but for a few words that are atomic (last access, marks, expiry): a write
//! puts another item in its place. So an item that was found can be read, in place, for as long as
//! its turn lasts.

mod change;
mod hash;

pub use change::{Change, New, NotStored, Updated, Value};
pub use hash::Hash;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a store is made.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes for items. The table is beside it.
    pub memory: usize,
    /// The most bytes of a key and its value together.
    pub item_max: usize,
    /// When memory is used up, do old items make room (or are new ones refused)?
    pub evict: bool,
    /// Do items have CAS ids? Without, all are 0.
    pub cas: bool,
    /// The most workers at a time.
    pub workers: usize,
    /// The secret of the hash; none: a random one.
    pub secret: Option<[u64; 2]>,
}

impl Default for StoreOptions {
    /// memcached's: 64 MiB, items up to 1 MiB, eviction, CAS ids; 4 workers.
    fn default() -> Self {
        StoreOptions {
            memory: 64 << 20,
            item_max: 1 << 20,
            evict: true,
            cas: true,
            workers: 4,
            secret: None,
        }
    }
}

/// Why there is no store, or no worker of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The system does not give the memory.
    #[error("cannot reserve {0} bytes of memory for items")]
    Memory(usize),
    /// As many workers as the options allow are there already.
    #[error("the store has its {0} workers already")]
    Workers(usize),
}

/// Counts and sizes, all since the store was made unless they speak of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items now, expired ones that nobody looked for among them.
    pub items: u64,
    /// Items that were ever stored.
    pub items_total: u64,
    /// Bytes that the items now take, with what each costs beside key and value.
    pub bytes: u64,
    /// Items that made room for others before they expired.
    pub evictions: u64,
    /// Of these, items that nobody ever fetched.
    pub evicted_unfetched: u64,
    /// Items whose memory was taken back because they had expired.
    pub expired: u64,
    /// Of these, items that nobody ever fetched.
    pub expired_unfetched: u64,
    /// Writes that were refused for want of memory.
    pub refused: u64,
    /// Bytes of the table now.
    pub table_bytes: u64,
    /// Slots of the table now.
    pub table_slots: u64,
}

/// The items of a server; see the head of this file.
pub struct Store {
    options: StoreOptions,
    secret: hash::Secret,
    cas: AtomicU64,
    workers: AtomicUsize,
    map: Mutex<Map>,
}

#[derive(Default)]
struct Map {
    items: HashMap<Box<[u8]>, Arc<Entry>>,
    stats: Stats,
    flush: Option<(u32, u64)>,
}

struct Entry {
    key: Box<[u8]>,
    value: Box<[u8]>,
    flags: u32,
    cas: u64,
    expires: AtomicU32,
    accessed: AtomicU32,
    fetched: AtomicBool,
    stale: bool,
    won: AtomicBool,
}

/// What an item costs beside key and value.
const OVERHEAD: usize = 20;

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// The memory cannot be reserved.
    pub fn new(options: StoreOptions) -> Result<Store, StoreError> {
        let secret = hash::Secret::new(options.secret);
        Ok(Store {
            options,
            secret,
            cas: AtomicU64::new(0),
            workers: AtomicUsize::new(0),
            map: Mutex::default(),
        })
    }

    /// A worker's way into the store.
    ///
    /// # Errors
    /// There are [`StoreOptions::workers`] of them.
    pub fn worker(self: &Arc<Self>) -> Result<Worker, StoreError> {
        let most = self.options.workers;
        let taken = self.workers.fetch_add(1, Ordering::Relaxed);
        if taken >= most {
            self.workers.fetch_sub(1, Ordering::Relaxed);
            return Err(StoreError::Workers(most));
        }
        Ok(Worker {
            store: Arc::clone(self),
            of_one_thread: PhantomData,
        })
    }

    /// The hash of a key; the key may be any bytes, 250 at most.
    pub fn hash(&self, key: &[u8]) -> Hash {
        self.secret.hash(key)
    }

    /// At `at` and not before, all items that were last accessed before that second are gone, and
    /// if `at` is now or past, all that are there (memcached's flush_all).
    pub fn flush_all(&self, at: u32, now: u32) {
        let mut map = self.map();
        let cas = if at <= now { self.next_cas() } else { 0 };
        map.flush = Some((at.saturating_sub(1), cas));
    }

    /// Counts and sizes now.
    pub fn stats(&self) -> Stats {
        let map = self.map();
        Stats {
            items: map.items.len() as u64,
            ..map.stats
        }
    }

    /// Sets the counters that memcached's `stats reset` sets to zero.
    pub fn reset_stats(&self) {
        let mut map = self.map();
        map.stats = Stats {
            bytes: map.stats.bytes,
            ..Stats::default()
        };
    }

    /// The options it was made with.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    fn next_cas(&self) -> u64 {
        match self.options.cas {
            true => self.cas.fetch_add(1, Ordering::Relaxed) + 1,
            false => 0,
        }
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's way into a store; one a thread.
pub struct Worker {
    store: Arc<Store>,
    /// Keeps it from being shared between threads.
    of_one_thread: PhantomData<std::cell::Cell<()>>,
}

impl Worker {
    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Begins a turn: what is found in it stays readable until its end. Turns are short, and none
    /// goes on while the worker waits, for the memory of items that went in it is not used again
    /// before.
    pub fn pin(&mut self) -> Pinned<'_> {
        Pinned { worker: self }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.store.workers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A turn of a worker.
pub struct Pinned<'w> {
    worker: &'w mut Worker,
}

impl Pinned<'_> {
    /// Starts loading what of the table is needed for the key of this hash.
    pub fn prefetch(&self, hash: Hash) {
        let _ = hash;
    }

    /// Starts loading the items that may be the key's: best some operations after
    /// [`prefetch`](Self::prefetch), and some before [`get`](Self::get).
    pub fn prefetch_item(&self, hash: Hash) {
        let _ = hash;
    }

    /// The key's item, if it has one that is valid now. It changes nothing: that an item was
    /// accessed is said by [`Item::access`].
    pub fn get(&self, hash: Hash, key: &[u8], now: u32) -> Option<Item<'_>> {
        debug_assert_eq!(hash, self.worker.store.hash(key));
        let map = self.worker.store.map();
        let entry = map.items.get(key)?;
        is_valid(entry, map.flush, now).then(|| Item {
            entry: Arc::clone(entry),
            turn: PhantomData,
        })
    }

    /// Changes what the key has, atomically: `decide` is given its valid item and says what to do,
    /// and something to be returned. It may be called more than once, only the last time counting,
    /// and must not use the store.
    ///
    /// # Errors
    /// The item is too large or there is no room; nothing has changed.
    pub fn update<'a, T>(
        &mut self,
        hash: Hash,
        key: &[u8],
        now: u32,
        mut decide: impl FnMut(Option<&Item<'_>>) -> (Change<'a>, T),
    ) -> Result<Updated<T>, NotStored> {
        debug_assert_eq!(hash, self.worker.store.hash(key));
        let store = &self.worker.store;
        let mut map = store.map();
        let flush = map.flush;
        let current = map.items.get(key).filter(|of| is_valid(of, flush, now));
        let current = current.map(|entry| Item {
            entry: Arc::clone(entry),
            turn: PhantomData,
        });
        let (change, outcome) = decide(current.as_ref());
        let mut cas = 0;
        match (change, current) {
            (Change::Keep, _) | (Change::Touch(_) | Change::Remove, None) => {}
            (Change::Touch(expires), Some(item)) => {
                item.entry.expires.store(expires, Ordering::Relaxed);
            }
            (Change::Remove, Some(item)) => map.remove(item.key()),
            (Change::Store(new), current) => {
                let entry = store.entry(key, new, current.as_ref(), now)?;
                let size = entry.size();
                if map.stats.bytes as usize + size > store.options.memory {
                    if !store.options.evict || size > store.options.memory {
                        map.stats.refused += 1;
                        return Err(NotStored::OutOfMemory);
                    }
                    map.make_room(store.options.memory - size);
                }
                cas = entry.cas;
                map.remove(key);
                map.stats.bytes += size as u64;
                map.stats.items_total += 1;
                map.items.insert(key.into(), Arc::new(entry));
            }
        }
        Ok(Updated { outcome, cas })
    }
}

impl Store {
    /// The item that a decision wants.
    fn entry(
        &self,
        key: &[u8],
        new: New<'_>,
        current: Option<&Item<'_>>,
        now: u32,
    ) -> Result<Entry, NotStored> {
        let before = current.map_or(&[][..], Item::value);
        let value: Box<[u8]> = match new.value {
            Value::Bytes(bytes) => bytes.into(),
            Value::Appended(bytes) => [before, bytes].concat().into(),
            Value::Prepended(bytes) => [bytes, before].concat().into(),
            Value::Same => before.into(),
            Value::Number { number, width } => format!("{number:<width$}").into_bytes().into(),
        };
        if key.len() + value.len() > self.options.item_max {
            return Err(NotStored::TooLarge);
        }
        let kept = current.filter(|_| matches!(new.value, Value::Same | Value::Number { .. }));
        Ok(Entry {
            key: key.into(),
            value,
            flags: new.flags,
            cas: new.cas.unwrap_or_else(|| self.next_cas()),
            expires: AtomicU32::new(new.expires),
            accessed: AtomicU32::new(kept.map_or(now, Item::last_access)),
            fetched: AtomicBool::new(kept.is_some_and(Item::is_fetched)),
            stale: new.stale,
            won: AtomicBool::new(false),
        })
    }
}

impl Map {
    fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.items.remove(key) {
            self.stats.bytes -= entry.size() as u64;
        }
    }

    /// Evicts any items until at most `bytes` are used.
    fn make_room(&mut self, bytes: usize) {
        while self.stats.bytes as usize > bytes {
            let Some(entry) = self.items.values().next().map(Arc::clone) else {
                return;
            };
            self.remove(&entry.key);
            self.stats.evictions += 1;
            self.stats.evicted_unfetched += u64::from(!entry.fetched.load(Ordering::Relaxed));
        }
    }
}

impl Entry {
    fn size(&self) -> usize {
        OVERHEAD + self.key.len() + self.value.len()
    }
}

/// Is the item neither expired nor flushed?
fn is_valid(entry: &Entry, flush: Option<(u32, u64)>, now: u32) -> bool {
    let expires = entry.expires.load(Ordering::Relaxed);
    let flushed = flush.is_some_and(|(before, cas)| {
        let accessed = entry.accessed.load(Ordering::Relaxed);
        before <= now && (accessed <= before || (entry.cas != 0 && entry.cas < cas))
    });
    (expires == 0 || expires > now) && !flushed
}

/// An item that was found, readable until the end of its turn.
pub struct Item<'p> {
    entry: Arc<Entry>,
    turn: PhantomData<&'p ()>,
}

impl Item<'_> {
    /// Its key.
    pub fn key(&self) -> &[u8] {
        &self.entry.key
    }

    /// Its value.
    pub fn value(&self) -> &[u8] {
        &self.entry.value
    }

    /// The client's flags.
    pub fn flags(&self) -> u32 {
        self.entry.flags
    }

    /// Its CAS id.
    pub fn cas(&self) -> u64 {
        self.entry.cas
    }

    /// The second at which it expires; 0: never.
    pub fn expires(&self) -> u32 {
        self.entry.expires.load(Ordering::Relaxed)
    }

    /// The second at which it was last accessed: stored, or fetched since.
    pub fn last_access(&self) -> u32 {
        self.entry.accessed.load(Ordering::Relaxed)
    }

    /// Was it ever fetched?
    pub fn is_fetched(&self) -> bool {
        self.entry.fetched.load(Ordering::Relaxed)
    }

    /// Was it invalidated?
    pub fn is_stale(&self) -> bool {
        self.entry.stale
    }

    /// Has some client won the right to renew it?
    pub fn is_won(&self) -> bool {
        self.entry.won.load(Ordering::Relaxed)
    }

    /// Gives the right to renew it, to one client until the item is stored anew: true for who wins.
    pub fn win(&self) -> bool {
        !self.entry.won.swap(true, Ordering::Relaxed)
    }

    /// Notes that it is fetched now, for `last_access`, `is_fetched`, and the choice of what is
    /// evicted.
    pub fn access(&self, now: u32) {
        self.entry.accessed.store(now, Ordering::Relaxed);
        self.entry.fetched.store(true, Ordering::Relaxed);
    }

    /// The bytes it takes, with what it costs beside key and value.
    pub fn size(&self) -> usize {
        self.entry.size()
    }
}

#[cfg(test)]
mod tests;
