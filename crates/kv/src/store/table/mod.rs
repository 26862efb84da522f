//! The table: from the hash of a key to the location of its item. It knows neither: whether a
//! location has the key, and which hash an item has, it asks.
//!
//! - A key has two *buckets* ([`bucket`]), from the two halves of its hash, and lies in either. A
//!   new item goes where there are more free slots; where there are none, an item there moves to
//!   its own other bucket; where that does not help either, something is evicted. There are no
//!   chains: a command looks at 24 slots, whatever keys the world chooses.
//! - The table grows a bucket at a time (linear hashing): with `size` buckets, those from the
//!   largest power of two on are the upper halves of the ones at its beginning, and growing splits
//!   the next of these. So the table is never copied, a write waits for one bucket at most, and the
//!   table is 3/4 full at any size: two choices even out that some buckets are split already (while
//!   a part x of them is, items that fit only into the others are (1 - x)^2 of all, for a part
//!   1 - x of the old buckets).
//!
//! A slot takes 64 / 12 = 5.3 bytes, so an item of a table 3/4 full 7.1.

mod bucket;

use super::atomic::{AtomicU32, AtomicU64, Ordering};
use super::chunks::{Chunks, FIRST};
use super::hash::Hash;
use bucket::{Bucket, SLOTS};

/// Buckets tried one behind the other to make a free slot by moving items: two moves.
const MOVES_DEEP: usize = 2;

/// What the table asks about the items at locations that are in buckets which it has locked.
pub(super) trait Oracle {
    /// The item's hash. Asked by nobody but the table, while it has the bucket's lock: the item
    /// stays in the table, and its memory its own, until this returns.
    fn hash_of(&self, location: u32) -> Hash;

    /// The item is asked for soon.
    fn prefetch(&self, location: u32);
}

/// See the head of this file.
pub(super) struct Table {
    /// Buckets in use.
    size: AtomicU64,
    items: AtomicU64,
    /// 1 while a thread splits a bucket.
    growing: AtomicU32,
    /// Buckets that the walk has seen; 0: nobody walks.
    walked: AtomicU64,
    chunks: Chunks<Bucket>,
}

/// The two buckets of a hash, which may be one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pair(usize, usize);

impl Pair {
    #[inline]
    fn of(hash: Hash, size: u64) -> Pair {
        let (first, second) = hash.halves();
        Pair(index(first, size), index(second, size))
    }
}

/// The bucket of half a hash among `size`: of its lowest bits, as many as name one that is there.
#[inline]
fn index(half: u32, size: u64) -> usize {
    let upper = size.next_power_of_two();
    let index = u64::from(half) & (upper - 1);
    (if index < size {
        index
    } else {
        index & (upper / 2 - 1)
    }) as usize
}

impl Table {
    /// An empty table; none where the system has no memory.
    pub(super) fn new() -> Option<Table> {
        Some(Table {
            size: AtomicU64::new(FIRST as u64),
            items: AtomicU64::new(0),
            growing: AtomicU32::new(0),
            walked: AtomicU64::new(0),
            chunks: Chunks::new()?,
        })
    }

    /// Items in the table.
    pub(super) fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    /// Buckets in use.
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Slots, free ones among them.
    pub(super) fn slots(&self) -> u64 {
        self.size() * SLOTS as u64
    }

    /// Bytes of the buckets in use.
    pub(super) fn bytes(&self) -> u64 {
        self.size() * size_of::<Bucket>() as u64
    }

    /// Makes a piece of the memory of so many buckets resident that come next, and of as many
    /// again. True: there is more to be done. None where the system cannot.
    pub(super) fn populate(&self, buckets: usize) -> Option<bool> {
        let next = self.size() as usize;
        match self.chunks.populate(next, buckets)? {
            true => Some(true),
            // What is farther may be in the next chunk.
            false => self.chunks.populate(next + buckets, buckets),
        }
    }

    /// All locations in the table; while nobody changes it.
    pub(super) fn locations(&self) -> impl Iterator<Item = u32> {
        (0..self.size() as usize).flat_map(|index| {
            let bucket = self.chunks.get(index);
            bucket.taken().map(|slot| bucket.location(slot))
        })
    }

    /// The locations in a bucket, as the next of a walk through all of them from 0 on, of which
    /// there is one at a time. None: there is no such bucket, and the walk is over.
    ///
    /// What is in the table from its beginning to its end is seen, whatever else happens: nothing
    /// moves from a bucket that was not walked to one that was, and a split moves to the end.
    pub(super) fn walk(&self, index: usize) -> Option<([u32; SLOTS], usize)> {
        if index as u64 >= self.size.load(Ordering::Acquire) {
            self.walked.store(0, Ordering::Release);
            return None;
        }
        let bucket = self.chunks.get(index);
        let (mut locations, mut count) = ([0; SLOTS], 0);
        bucket.lock();
        for slot in bucket.taken() {
            locations[count] = bucket.location(slot);
            count += 1;
        }
        // Under the lock: who moves something holds those of both buckets.
        self.walked.store(index as u64 + 1, Ordering::Release);
        bucket.unlock();
        Some((locations, count))
    }

    /// Would a move between these buckets, whose locks are held, hide an item from the walk?
    fn hides(&self, from: usize, to: usize) -> bool {
        let walked = self.walked.load(Ordering::Acquire);
        (to as u64) < walked && from as u64 >= walked
    }

    /// Starts loading the buckets of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: Hash) {
        let Pair(first, second) = Pair::of(hash, self.size.load(Ordering::Acquire));
        self.chunks.prefetch(first);
        self.chunks.prefetch(second);
    }

    /// The first of the locations with this hash's tag for which `is` gives something. None means
    /// that there was a moment in which none of them was in the table.
    #[inline]
    pub(super) fn find<T>(&self, hash: Hash, mut is: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let tag = hash.tag();
        loop {
            let pair = Pair::of(hash, self.size.load(Ordering::Acquire));
            let (first, second) = (self.chunks.get(pair.0), self.chunks.get(pair.1));
            let before = (first.moves(), second.moves());
            for bucket in [first, second] {
                for slot in bucket.matches(tag) {
                    let found = is(bucket.location(slot));
                    if found.is_some() {
                        return found;
                    }
                }
            }
            // Did something move behind our back, within the buckets or by a split?
            let after = (first.moves(), second.moves());
            if before == after && pair == Pair::of(hash, self.size.load(Ordering::Acquire)) {
                return None;
            }
        }
    }

    /// Takes the locks of a hash's buckets.
    pub(super) fn lock(&self, hash: Hash) -> Locked<'_> {
        loop {
            let pair = Pair::of(hash, self.size.load(Ordering::Acquire));
            // Lower ones first, so that no two wait for each other.
            let (low, high) = (pair.0.min(pair.1), pair.0.max(pair.1));
            self.chunks.get(low).lock();
            if high != low {
                self.chunks.get(high).lock();
            }
            let locked = Locked {
                table: self,
                hash,
                pair,
            };
            // Only a split of one of them, which needs its lock, makes them others.
            if pair == Pair::of(hash, self.size.load(Ordering::Acquire)) {
                return locked;
            }
        }
    }

    /// Is the table fuller than it should be?
    pub(super) fn is_crowded(&self) -> bool {
        self.items() * 4 > self.size() * SLOTS as u64 * 3
    }

    /// Splits the next bucket, if no other thread is at it: half of its items go to a new one.
    /// False where the system has no memory for more.
    pub(super) fn grow(&self, oracle: &impl Oracle) -> bool {
        let free = (0, 1, Ordering::Acquire, Ordering::Relaxed);
        if (self
            .growing
            .compare_exchange(free.0, free.1, free.2, free.3))
        .is_err()
        {
            return true;
        }
        let grown = self.split(oracle);
        self.growing.store(0, Ordering::Release);
        grown
    }

    fn split(&self, oracle: &impl Oracle) -> bool {
        let size = self.size.load(Ordering::Relaxed);
        if !self.chunks.make(size as usize) {
            return false;
        }
        let split = (size - (1 << size.ilog2())) as usize;
        let (old, new) = (self.chunks.get(split), self.chunks.get(size as usize));
        old.lock();
        // They lie anywhere, so they are loaded all at the same time.
        old.taken()
            .for_each(|slot| oracle.prefetch(old.location(slot)));
        let mut gone = 0_u32;
        // Nobody looks into the new bucket before the size says that it is there. It has been one
        // of the old bucket's slots each: the slot stays, so that there is room for certain.
        for slot in old.taken() {
            let location = old.location(slot);
            let Pair(first, second) = Pair::of(oracle.hash_of(location), size + 1);
            if first != split && second != split {
                new.put(slot, old.tag(slot), location);
                gone |= 1 << slot;
            }
        }
        // Who looks for an item that moved sees, after a slot was cleared, that it looked into a
        // bucket of an earlier size.
        self.size.store(size + 1, Ordering::Release);
        for slot in (0..SLOTS).filter(|slot| gone & 1 << slot != 0) {
            old.clear(slot);
        }
        old.unlock();
        true
    }

    /// Makes a free slot in a bucket whose lock is held, by moving an item of it to its other
    /// bucket, and, `deep` times at most, one from there to its own. `held` are all buckets whose
    /// locks this thread has; they are no place to move to.
    fn vacate(
        &self,
        from: usize,
        deep: usize,
        held: [usize; MOVES_DEEP + 1],
        oracle: &impl Oracle,
    ) -> Option<usize> {
        let bucket = self.chunks.get(from);
        (bucket.taken().take(4)).for_each(|slot| oracle.prefetch(bucket.location(slot)));
        for slot in bucket.taken() {
            let location = bucket.location(slot);
            let hash = oracle.hash_of(location);
            let Pair(first, second) = Pair::of(hash, self.size.load(Ordering::Acquire));
            let to = if first == from { second } else { first };
            // Only tried, for the locks of three buckets have no order.
            if held.contains(&to) || !self.chunks.get(to).try_lock() {
                continue;
            }
            let other = self.chunks.get(to);
            let pair = Pair::of(hash, self.size.load(Ordering::Acquire));
            let still = pair == Pair(first, second) && !self.hides(from, to);
            let mut place = other.free().next().filter(|_| still);
            if place.is_none() && still && deep > 1 {
                place = self.vacate(to, deep - 1, [held[0], held[1], to], oracle);
            }
            if let Some(place) = place {
                other.put(place, bucket.tag(slot), location);
                bucket.count_move();
                bucket.clear(slot);
            }
            other.unlock();
            if place.is_some() {
                return Some(slot);
            }
        }
        None
    }
}

/// The locks of a hash's buckets. What is done through them other threads see at once, each change
/// by itself.
pub(super) struct Locked<'t> {
    table: &'t Table,
    hash: Hash,
    pair: Pair,
}

/// A slot that is taken, in buckets that are locked.
#[derive(Clone, Copy)]
pub(super) struct Slot<'t> {
    bucket: &'t Bucket,
    slot: usize,
}

impl Slot<'_> {
    /// The location in it.
    pub(super) fn location(&self) -> u32 {
        self.bucket.location(self.slot)
    }

    /// Is this location in it (still)?
    pub(super) fn has(&self, location: u32) -> bool {
        self.bucket.tag(self.slot) != 0 && self.location() == location
    }
}

impl<'t> Locked<'t> {
    fn buckets(&self) -> impl Iterator<Item = &'t Bucket> + use<'t> {
        let Pair(first, second) = self.pair;
        let chunks = &self.table.chunks;
        let second = (second != first).then(|| chunks.get(second));
        std::iter::once(chunks.get(first)).chain(second)
    }

    /// The slot with this hash's tag whose location `is` says yes to.
    pub(super) fn find(&self, mut is: impl FnMut(u32) -> bool) -> Option<Slot<'t>> {
        let tag = self.hash.tag();
        (self.buckets())
            .flat_map(|bucket| bucket.matches(tag).map(move |slot| Slot { bucket, slot }))
            .find(|slot| is(slot.location()))
    }

    /// All slots that are taken, by whatever hashes.
    pub(super) fn taken(&self) -> impl Iterator<Item = Slot<'t>> + use<'t> {
        self.buckets()
            .flat_map(|bucket| bucket.taken().map(move |slot| Slot { bucket, slot }))
    }

    /// Gives a slot of these buckets to an item of this hash, in the place of the one that it had.
    pub(super) fn replace(&mut self, slot: Slot<'_>, location: u32) {
        self.check(slot);
        slot.bucket.put(slot.slot, self.hash.tag(), location);
    }

    /// Only slots of buckets that are locked are changed.
    fn check(&self, slot: Slot<'_>) {
        let own = self
            .buckets()
            .any(|bucket| std::ptr::eq(bucket, slot.bucket));
        assert!(own, "a slot of a bucket that is not locked");
    }

    /// Frees a slot.
    pub(super) fn remove(&mut self, slot: Slot<'_>) {
        self.check(slot);
        slot.bucket.clear(slot.slot);
        self.table.items.fetch_sub(1, Ordering::Relaxed);
    }

    /// A free slot, or one that is made free by moving other items. None: another item must give
    /// up its slot.
    pub(super) fn vacancy(&self, oracle: &impl Oracle) -> Option<Slot<'t>> {
        let Pair(first, second) = self.pair;
        let free = (self.buckets())
            .max_by_key(|bucket| bucket.free().count())
            .and_then(|bucket| Some((bucket, bucket.free().next()?)));
        if let Some((bucket, slot)) = free {
            return Some(Slot { bucket, slot });
        }
        [first, second].into_iter().find_map(|index| {
            let held = [first, second, index];
            let slot = self.table.vacate(index, MOVES_DEEP, held, oracle)?;
            let bucket = self.table.chunks.get(index);
            Some(Slot { bucket, slot })
        })
    }

    /// Puts an item of this hash into a free slot of these buckets.
    pub(super) fn fill(&mut self, slot: Slot<'_>, location: u32) {
        self.replace(slot, location);
        self.table.items.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.buckets().for_each(Bucket::unlock);
    }
}
