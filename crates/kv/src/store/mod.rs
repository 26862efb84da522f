//! The items: what a key has, until it expires, is removed or has to make room.
//!
//! A store is shared by all workers. It does no I/O and reads no clock: the time is an argument, in
//! seconds since some start, at least 1 (memcached's relative time). A worker uses it under a guard
//! ([`Pinned`]), one for each turn of its loop:
//!
//! ```text
//!   let mut worker = Store::worker(&store)?      once a thread
//!   let mut pinned = worker.pin();               once a turn: items seen now stay readable
//!   let hash = store.hash(key);                  for each command of the turn, step by step:
//!   pinned.prefetch(hash);                         the buckets where the key may be
//!   pinned.prefetch_item(hash);                    the items there that look like it
//!   pinned.get(hash, key, now)                     -> the item, borrowed from the guard
//!   pinned.update(hash, key, now, |item| ...)      every write: decide from what is there
//!   drop(pinned)                                 before the loop waits
//! ```
//!
//! Items never change but for a few words that are atomic (last access, marks, expiry): a write
//! puts another item in its place. So an item that was found can be read, in place, for as long as
//! its guard lasts.
//!
//! What is where:
//!
//! ```text
//!   Pinned::get, update (update.rs)      reclaim.rs: memory is taken back, items evicted
//!        |  long values: long.rs              |
//!        +------------> items.rs <------------+      locations become items, under guards only
//!                  /        |       \
//!            table/     segments/    epoch.rs
//!   hash -> location    location ->   when memory may be used again
//!                       key, value, ...
//! ```
//!
//! What a key costs beside key and value: a header of 20 bytes (lengths and marks 4, last access 4,
//! expiry 4, CAS id 8; see `segments/item.rs`), 4 more where the client's flags are not 0, what is
//! left to the next multiple of 4 (of more in a store beyond 16 GiB, as locations have 32 bits),
//! and its slot: 5.3 bytes in a table that is 3/4 full, 7.1. With a key of 16 bytes and a value of
//! 32 that is 27.1 bytes.

mod atomic;
mod change;
mod chunks;
mod counters;
mod epoch;
mod flush;
mod hash;
mod items;
mod long;
mod memory_file;
mod meta;
mod reclaim;
mod region;
mod restart;
mod segments;
mod table;
mod update;

pub use change::{Change, Marks, New, NotStored, Touch, Updated, Value};
pub use hash::Hash;
pub use items::NotLeft;
pub use memory_file::FileError;
pub use meta::Unkept;
pub use restart::{Kept, OpenError, Opened};
pub use segments::{Item, Large};

use counters::{Counter, Counters};
use flush::Flushes;
use items::{Guard, Items, Reclaim, Seat};
use memory_file::MemoryFile;
use segments::Segments;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes for items that [`Store::prepare`] keeps ready, and buckets of 64 bytes.
const AHEAD: usize = 32 << 20;
const BUCKETS_AHEAD: usize = 1 << 15;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes for items. The table is beside it.
    pub memory: usize,
    /// What [`Store::set_memory`] may make of that: addresses for so many bytes are reserved, where
    /// the system has them.
    pub memory_max: usize,
    /// The most bytes of a key and its value together.
    pub item_max: usize,
    /// When memory is used up, do old items make room (or are new ones refused)?
    pub evict: bool,
    /// Do items have CAS ids? Without, all are 0.
    pub cas: bool,
    /// Which CAS ids there are.
    pub cas_ids: CasIds,
    /// The most workers at a time.
    pub workers: usize,
    /// Is all memory for items made resident by [`Store::prepare`], and not what is used next?
    pub resident: bool,
    /// The secret of the hash; none: a random one.
    pub secret: Option<[u64; 2]>,
}

impl Default for StoreOptions {
    /// memcached's: 64 MiB, items up to 1 MiB, eviction, CAS ids; 4 workers.
    fn default() -> Self {
        StoreOptions {
            memory: 64 << 20,
            memory_max: 0,
            item_max: 1 << 20,
            evict: true,
            cas: true,
            cas_ids: CasIds::default(),
            workers: 4,
            resident: false,
            secret: None,
        }
    }
}

/// CAS ids that a store gives away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CasIds {
    /// The one before the first.
    pub from: u64,
    /// From one to the next.
    pub step: u64,
}

impl Default for CasIds {
    /// 1, 2, 3 and so on, as memcached's.
    fn default() -> CasIds {
        CasIds { from: 0, step: 1 }
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
    /// Bytes of memory that are in use for items now, at most what the options say.
    pub memory_used: u64,
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
    items: Items,
    reclaim: Mutex<Reclaim>,
    flushes: Flushes,
    cas: AtomicU64,
    /// A set a worker, and what they were when they were last reset.
    counters: Box<[Counters]>,
    reset: Mutex<Stats>,
    /// Where the items are, if that is a file. It stays locked until they are dropped.
    file: Option<MemoryFile>,
}

impl Store {
    /// An empty store.
    ///
    /// # Errors
    /// The memory cannot be reserved.
    pub fn new(options: StoreOptions) -> Result<Store, StoreError> {
        let segments = Segments::new(options.memory, options.memory_max);
        let segments = segments.ok_or(StoreError::Memory(options.memory))?;
        Store::with(options, segments)
    }

    fn with(options: StoreOptions, segments: Segments) -> Result<Store, StoreError> {
        let secret = hash::Secret::new(options.secret);
        let items = Items::new(segments, options.workers, secret);
        let items = items.ok_or(StoreError::Memory(options.memory))?;
        Ok(Store {
            items,
            reclaim: Mutex::new(Reclaim::new()),
            flushes: Flushes::default(),
            cas: AtomicU64::new(options.cas_ids.from),
            counters: (0..options.workers).map(|_| Counters::default()).collect(),
            reset: Mutex::default(),
            file: None,
            options,
        })
    }

    /// A worker's way into the store.
    ///
    /// # Errors
    /// There are [`StoreOptions::workers`] of them.
    pub fn worker(self: &Arc<Self>) -> Result<Worker, StoreError> {
        let seat = self.items.sit();
        Ok(Worker {
            seat: seat.ok_or(StoreError::Workers(self.options.workers))?,
            store: Arc::clone(self),
        })
    }

    /// The hash of a key; the key may be any bytes, 250 at most.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> Hash {
        self.items.secret.hash(key)
    }

    /// All items that were last accessed before the second `at` are gone, and if `at` is now or
    /// past, all that are there (memcached's flush_all). As in memcached it comes about a second
    /// before `at`, and takes what is stored in the meantime; without CAS ids, which tell what of
    /// this very second was there before, it comes at `at`, and takes what is stored in that
    /// second.
    pub fn flush_all(&self, at: u32, now: u32) {
        let until = self.flush_due(at);
        let is_due = until <= now;
        let cas = match (self.options.cas, is_due) {
            (false, _) => 0,
            (true, true) => self.next_cas(),
            (true, false) => self.cas.load(Ordering::Relaxed) + 1,
        };
        self.flushes.flush(until, now, cas);
        if is_due {
            self.items.segments.sweep();
        }
    }

    /// The second in which a flush for the second `at` takes effect.
    pub(crate) fn flush_due(&self, at: u32) -> u32 {
        at.saturating_sub(u32::from(self.options.cas))
    }

    /// Makes a huge page of the memory resident that is needed next: some 32 MiB for items (an
    /// eighth of a small store; all with [`StoreOptions::resident`]), and some for the table. Its
    /// first touch can take a millisecond, which a worker would otherwise spend in the middle of a
    /// turn of its loop. True: there is more to be done.
    ///
    /// To be called before the store is used, until there is no more, and then every 5 to 10 ms for
    /// as long as it is (sooner while there is more), by one thread that may wait and is no worker.
    /// It does one page at a time since that thread may have the processor of a worker. It holds no
    /// lock meanwhile that a worker takes, and changes nothing that is stored. Without it all works
    /// as well, but for the pauses.
    ///
    /// None: the system cannot do it (Linux can from 5.14 on) or has no memory left; then there is
    /// no use in calling it again.
    pub fn prepare(&self) -> Option<bool> {
        let ahead = match self.options.resident {
            true => self.memory(),
            false => AHEAD.min(self.memory() / 8),
        };
        match self.items.segments.populate(ahead)? {
            true => Some(true),
            false => self.items.table.populate(BUCKETS_AHEAD),
        }
    }

    /// Bytes for items now.
    pub fn memory(&self) -> usize {
        self.items.segments.memory()
    }

    /// Whether most of that is taken by values too long for segments, those among them that are no
    /// item's any more and still sent.
    pub(crate) fn is_mostly_large(&self) -> bool {
        self.items.segments.large_bytes() > self.memory() / 2
    }

    /// From now on there are so many bytes for items, or the fewest with which a store can do (16
    /// segments). More are there at once; for fewer, items are evicted by and by
    /// ([`Pinned::tend`]), or nothing is stored before enough have gone. False: there are no
    /// addresses for as many, and all stays as it is.
    pub fn set_memory(&self, bytes: usize) -> bool {
        self.items.segments.set_memory(bytes)
    }

    /// Counts and sizes now.
    pub fn stats(&self) -> Stats {
        let reset = *self
            .reset
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = self.counted();
        Stats {
            items_total: all.items_total - reset.items_total,
            evictions: all.evictions - reset.evictions,
            evicted_unfetched: all.evicted_unfetched - reset.evicted_unfetched,
            expired: all.expired - reset.expired,
            expired_unfetched: all.expired_unfetched - reset.expired_unfetched,
            refused: all.refused - reset.refused,
            ..all
        }
    }

    /// As [`Store::stats`], with all counts since the store was made, whatever was reset.
    pub(crate) fn totals(&self) -> Stats {
        self.counted()
    }

    /// What the segments are used for now.
    pub(crate) fn occupancy(&self) -> segments::Occupancy {
        self.items.segments.occupancy()
    }

    /// Begins all counts anew; sizes stay (memcached's `stats reset`).
    pub(crate) fn reset_stats(&self) {
        *self
            .reset
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = self.counted();
    }

    /// The options it was made with.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    fn counted(&self) -> Stats {
        let sum = |counter| {
            let counts = self.counters.iter().map(|of| of.get(counter));
            counts.fold(0_u64, u64::wrapping_add)
        };
        let table = &self.items.table;
        Stats {
            items: table.items(),
            items_total: sum(Counter::Stored),
            bytes: sum(Counter::BytesIn).saturating_sub(sum(Counter::BytesOut)),
            memory_used: self.items.segments.bytes_used() as u64,
            evictions: sum(Counter::Evicted),
            evicted_unfetched: sum(Counter::EvictedUnfetched),
            expired: sum(Counter::Expired),
            expired_unfetched: sum(Counter::ExpiredUnfetched),
            refused: sum(Counter::Refused),
            table_bytes: table.bytes(),
            table_slots: table.slots(),
        }
    }

    /// CAS ids begin behind this one, before there is an item.
    pub(crate) fn begin_cas_ids(&self, from: u64) {
        self.cas.store(from, Ordering::Relaxed);
    }

    /// A CAS id that no item has.
    pub(crate) fn next_cas(&self) -> u64 {
        match self.options.cas {
            true => {
                let step = self.options.cas_ids.step;
                self.cas.fetch_add(step, Ordering::Relaxed) + step
            }
            false => 0,
        }
    }

    /// Is the item neither expired nor flushed?
    #[inline]
    fn is_valid(&self, item: &Item<'_>, now: u32) -> bool {
        let expires = item.expires();
        (expires == 0 || expires > now) && !self.flushes.took(item.last_access(), item.cas(), now)
    }

    fn counters(&self, guard: &Guard<'_>) -> &Counters {
        &self.counters[guard.worker()]
    }
}

/// A worker's way into a store; one a thread.
pub struct Worker {
    store: Arc<Store>,
    seat: Seat,
}

impl Worker {
    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A guard: what is found under it stays readable until it is dropped. It is held for a turn of
    /// the worker's loop, and never while the worker waits, for the memory of items that went
    /// meanwhile is not used again before.
    #[inline]
    pub fn pin(&mut self) -> Pinned<'_> {
        Pinned {
            store: &self.store,
            guard: self.store.items.pin(&mut self.seat),
            waited: 0,
            work: 0,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.store.items.stand(&mut self.seat);
    }
}

/// A worker's guard, and what can be done under it.
pub struct Pinned<'w> {
    store: &'w Store,
    guard: Guard<'w>,
    /// How often it waited for others for want of memory.
    waited: u32,
    /// Bytes of values that were copied under it, or [looked through](Self::looked_through).
    work: usize,
}

impl Pinned<'_> {
    /// Starts loading what of the table is needed for the key of this hash.
    #[inline]
    pub fn prefetch(&self, hash: Hash) {
        self.store.items.table.prefetch(hash);
    }

    /// Starts loading the items that may be the key's: best some operations after
    /// [`prefetch`](Self::prefetch), and some before [`get`](Self::get).
    #[inline]
    pub fn prefetch_item(&self, hash: Hash) {
        self.guard.prefetch_items(hash);
    }

    /// The key's item, if it has one that is valid now. It changes nothing: that an item was
    /// accessed is said by [`Item::access`].
    #[inline]
    pub fn get(&self, hash: Hash, key: &[u8], now: u32) -> Option<Item<'_>> {
        debug_assert_eq!(hash, self.store.hash(key));
        (self.guard.find(hash, key)).filter(|item| self.store.is_valid(item, now))
    }

    /// The item that the key has, valid or not: for who has just made it, perhaps in a second all
    /// of which a flush takes.
    pub fn made(&self, hash: Hash, key: &[u8]) -> Option<Item<'_>> {
        debug_assert_eq!(hash, self.store.hash(key));
        self.guard.find(hash, key)
    }

    /// The items in the bucket `at`, valid or not, as the next step of a walk through all buckets
    /// from 0 on; one walks at a time. False: there is none, and the walk is over. An item that is
    /// there from the beginning of the walk to its end is seen, at least once; by the time that it
    /// is, it may have been replaced.
    pub fn walk(&self, at: usize, each: impl FnMut(Item<'_>)) -> bool {
        self.guard.walk(at, each)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        self.store
    }

    /// What writes have cost under it so far, in bytes of values that were made of others, copied
    /// or looked through: a short command may make a long value of one that is there.
    #[inline]
    pub(crate) fn work(&self) -> usize {
        self.work
    }

    /// So many bytes of a value were looked through.
    #[inline]
    pub(crate) fn looked_through(&mut self, bytes: usize) {
        self.work += bytes;
    }
}

#[cfg(test)]
mod tests;
