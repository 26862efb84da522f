//! The memory of items: segments, each of items that expire at about the same time.
//!
//! One range of memory, the *heap*, is cut into segments of equal size. Items are written one
//! behind the other into the open segment of their *group*, which says how long they live (an
//! octave of seconds; those that never expire are one), and where an item lies is its *location*:
//! 32 bits, counted in units of 4 bytes, or as many more as a heap beyond 16 GiB needs. A full
//! segment is sealed, and at some time taken back ([`super::reclaim`]): when all of its items have
//! expired, which happens within about the time they live, or to make room.
//!
//! Values that are too long for a segment lie elsewhere ([`large`]), counted in the same sum.
#![allow(unsafe_code)]

mod at_rest;
mod item;
mod large;
mod layout;
mod limits;
mod occupancy;
mod pool;
mod resident;
mod segment;

pub(super) use at_rest::AtRest;
pub use item::Item;
pub(super) use item::{Body, GONE, VALUE_MAX, Words, bytes};
pub use large::Large;
pub(super) use layout::Layout;
pub(super) use occupancy::Occupancy;
pub(super) use pool::{Fate, Lack, May};

use super::atomic::{self, AtomicU32, Ordering};
use super::epoch::Epochs;
use super::region::Region;
use layout::{SEGMENTS_MIN, SIZES};
use pool::{Pool, WORTH};
use rhythm_protocol::scan::prefetch_address;
use segment::Segment;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Segments that only moves may open, so that there always is a place to move to.
const FOR_MOVES: u32 = 2;
/// Groups: items that never expire, and an octave of seconds each.
pub(super) const GROUPS: usize = 30;
/// No segment.
const NONE: u32 = u32::MAX;

/// See the head of this file.
pub(super) struct Segments {
    heap: Region,
    /// A unit is 1 << `unit` bytes.
    unit: u32,
    /// Units of a segment, a power of two.
    capacity: u32,
    segments: Box<[Segment]>,
    /// The open segment of each group, or [`NONE`].
    open: [AtomicU32; GROUPS],
    pool: Mutex<Pool>,
    /// 1 where few segments are left.
    short: AtomicU32,
    /// 1 where a sealed segment may have become free of items.
    has_dead: AtomicU32,
    /// 1 where so much died in a segment that it may be worth taking back.
    has_died: AtomicU32,
    /// Bytes for segments and long values, and the most that may ever be.
    memory: AtomicUsize,
    memory_max: usize,
    /// Bytes of long values.
    large: Arc<AtomicUsize>,
}

/// Room for one item, to be [written](Segments::write).
pub(super) struct Room {
    location: u32,
}

/// Why there is no room at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// A segment.
    Segment,
    /// So many bytes for a long value.
    Large(usize),
}

/// The segments that a thread moves items into; nobody else writes into them.
pub(super) struct Destinations([u32; GROUPS]);

impl Destinations {
    pub(super) fn new() -> Destinations {
        Destinations([NONE; GROUPS])
    }
}

impl Segments {
    /// Segments of so many bytes in all, and addresses for as many as there may be later, where
    /// the system has them; none where it refuses.
    pub(super) fn new(memory: usize, memory_max: usize) -> Option<Segments> {
        let layout = Layout::of(memory);
        let reserve = |memory: usize| Some((Region::new(layout.bytes(memory))?, memory));
        let (heap, memory_max) = reserve(memory_max.max(memory)).or_else(|| reserve(memory))?;
        Some(Segments::on(heap, layout, memory, memory_max))
    }

    /// The segments of a heap, of which so much may be used now, and later.
    pub(super) fn on(heap: Region, layout: Layout, memory: usize, memory_max: usize) -> Segments {
        let Layout { unit, capacity } = layout;
        let memory = memory.max(SEGMENTS_MIN * SIZES.0);
        let memory_max = memory_max.max(memory);
        let size = layout.segment_bytes();
        let total = heap.bytes() / size;
        Segments {
            heap,
            unit,
            capacity,
            segments: (0..total).map(|_| Segment::new()).collect(),
            open: std::array::from_fn(|_| AtomicU32::new(NONE)),
            pool: Mutex::new(Pool::new(total as u32)),
            short: AtomicU32::new(0),
            has_dead: AtomicU32::new(0),
            has_died: AtomicU32::new(0),
            memory: AtomicUsize::new(memory),
            memory_max: memory_max.min((total + 1) * size - 1),
            large: Arc::default(),
        }
    }

    /// The group of items that live from `now` to `expires`.
    pub(super) fn group(expires: u32, now: u32) -> usize {
        match expires {
            0 => 0,
            _ => 1 + (expires.saturating_sub(now) / 16 + 1).ilog2() as usize,
        }
    }

    /// The most bytes of an item in a segment; where it would take more, its value lies elsewhere.
    pub(super) fn item_max(&self) -> usize {
        self.segment_bytes() / 8
    }

    /// The units of an item of so many bytes.
    pub(super) fn units(&self, bytes: usize) -> u32 {
        bytes.div_ceil(1 << self.unit) as u32
    }

    /// Takes room in the open segment of a group, or in one that is opened for it.
    pub(super) fn room(&self, group: usize, units: u32, epochs: &Epochs) -> Result<Room, Wants> {
        loop {
            let index = self.open[group].load(Ordering::Acquire);
            if index != NONE {
                let segment = &self.segments[index as usize];
                // Long values fill a segment that is not full: evicting goes by segments.
                let is_heavy = segment.elsewhere() > 16 * self.segment_bytes() as u64;
                if !is_heavy && let Some(at) = segment.take(units, self.capacity) {
                    return Ok(self.room_at(index, at));
                }
            }
            let mut pool = self.pool();
            if self.open[group].load(Ordering::Relaxed) != index {
                continue;
            }
            if pool.available(self.allowed()) <= FOR_MOVES {
                let _dropped = pool.collect(epochs);
            }
            let allowed = self.allowed();
            let new = (pool.available(allowed) > FOR_MOVES).then(|| pool.take());
            let new = new.flatten().ok_or(Wants::Segment)?;
            self.segments[new as usize].open(group);
            self.open[group].store(new, Ordering::Release);
            if index != NONE {
                self.segments[index as usize].seal();
                pool.sealed(index);
            }
            self.note_shortage(&pool);
        }
    }

    /// Takes room in a segment to move to.
    pub(super) fn room_to_move(
        &self,
        to: &mut Destinations,
        group: usize,
        units: u32,
    ) -> Option<Room> {
        let index = &mut to.0[group];
        if *index != NONE
            && let Some(at) = self.segments[*index as usize].take(units, self.capacity)
        {
            return Some(self.room_at(*index, at));
        }
        let mut pool = self.pool();
        let may_move = pool.may_move(self.allowed());
        let new = may_move.then(|| pool.take()).flatten()?;
        if *index != NONE {
            self.segments[*index as usize].seal();
            pool.sealed(*index);
        }
        *index = new;
        self.segments[new as usize].open(group);
        let at = self.segments[new as usize].take(units, self.capacity)?;
        Some(self.room_at(new, at))
    }

    /// A long value of these parts, and blanks behind them; none where the system refuses the
    /// memory.
    pub(super) fn large(
        &self,
        parts: [&[u8]; 2],
        blanks: usize,
        epochs: &Epochs,
    ) -> Result<Option<Arc<Large>>, Wants> {
        let large = self.reserve(parts[0].len() + parts[1].len() + blanks, epochs)?;
        let filled = large.and_then(|large| large.fill(parts, blanks));
        Ok(filled.map(Arc::new))
    }

    /// Memory for a long value of so many bytes; none where the system refuses it, which no room
    /// that is made here would change.
    pub(super) fn reserve(&self, length: usize, epochs: &Epochs) -> Result<Option<Large>, Wants> {
        let mut pool = self.pool();
        let dropped = pool.collect(epochs);
        drop(pool);
        drop(dropped);
        pool = self.pool();
        let kept = (pool.used() + FOR_MOVES + 1) as usize * self.segment_bytes();
        if self.large.load(Ordering::Relaxed) + length + kept > self.memory() {
            return Err(Wants::Large(length));
        }
        let large = Large::new(length, &self.large);
        self.chill(&mut pool);
        self.note_shortage(&pool);
        drop(pool);
        Ok(large)
    }

    /// Writes an item into its room. `expires` is that of its words.
    pub(super) fn write(&self, room: Room, key: &[u8], words: &Words, body: Body<'_>) -> u32 {
        let elsewhere = body.elsewhere();
        let at = self.at(room.location);
        // SAFETY: the room was taken for an item of these bytes, by this thread alone, and units
        // are aligned to 4. Whatever lay there before was retired, and nobody reads it.
        unsafe { item::write(at, key, words, body) };
        self.segment(room.location)
            .written(last_second(words.expires), elsewhere);
        room.location
    }

    /// Copies an item into room that was taken for it; the copy has the long value from now on.
    pub(super) fn copy(&self, room: Room, item: Item<'_>) -> u32 {
        // SAFETY: as in `write`; the item lies in another segment.
        unsafe { item.copy_to(self.at(room.location)) };
        let expires = last_second(item.expires());
        self.segment(room.location)
            .written(expires, item.elsewhere());
        room.location
    }

    /// The item at a location.
    ///
    /// # Safety
    /// The location was found in the table, by a thread that has a guard for `'p`, or whose locks
    /// keep it there for `'p`; or it lies in a segment that this thread is taking back.
    #[inline]
    pub(super) unsafe fn item<'p>(&self, location: u32) -> Item<'p> {
        // SAFETY: what is in the table is the location of an item whose writing came before; and
        // the memory of items is used again only after they left the table and all guards that
        // might have found them ended.
        unsafe { Item::at(self.at(location)) }
    }

    /// Starts loading the item at a location, if there is one.
    #[inline]
    pub(super) fn prefetch(&self, location: u32) {
        let bytes = (location as usize) << self.unit;
        prefetch_address(self.heap.start().as_ptr().wrapping_add(bytes));
        // Items lie where they fall, many across two lines.
        prefetch_address(self.heap.start().as_ptr().wrapping_add(bytes + 63));
    }

    /// An item that lasts until then may be given this expiry in place: its segment lasts as long.
    pub(super) fn outlives(&self, location: u32, expires: u32) -> bool {
        last_second(expires) <= self.segment(location).expires()
    }

    /// The segment of an item lasts until then at least.
    pub(super) fn prolong(&self, location: u32, expires: u32) {
        self.segment(location).note(last_second(expires), 0);
    }

    /// The item at the location has left the table, for another in its place or none; so has its
    /// long value.
    ///
    /// # Safety
    /// It had been there, and this is called once.
    pub(super) unsafe fn died(&self, location: u32, epochs: &Epochs) {
        // SAFETY: it was in the table until now, and this thread has a guard.
        let item: Item<'_> = unsafe { self.item(location) };
        self.left(location, item);
        // SAFETY: it left the table, where it or its copies were once, and the value is kept until
        // all guards that might have found it are dropped.
        if let Some(large) = unsafe { item.take_large() } {
            let mut pool = self.pool();
            pool.retire_large(large, epochs);
            let dropped = pool.collect(epochs);
            drop(pool);
            drop(dropped);
        }
    }

    /// The item at the location has left the table for its copy.
    pub(super) fn left(&self, location: u32, item: Item<'_>) {
        let units = self.units(item.length());
        let died = self.segment(location).died(units, item.elsewhere());
        if died.is_all {
            self.has_dead.store(1, Ordering::Relaxed);
        }
        // A part more of it, or all.
        let part = self.capacity / WORTH;
        if died.is_all || died.units / part != (died.units - units) / part {
            self.has_died.store(1, Ordering::Release);
        }
    }

    /// Takes a segment to be taken back, and what becomes of its items. Where no sealed one will
    /// do, an open one is sealed.
    pub(super) fn choose(&self, now: u32, may: May, to: &mut Destinations) -> Option<(u32, Fate)> {
        let mut pool = self.pool();
        if self.has_died.load(Ordering::Relaxed) != 0 {
            self.has_died.swap(0, Ordering::Acquire);
            pool.look_again();
        }
        let room = (self.memory() >> self.unit) as u64;
        let sizes = (self.unit, self.capacity);
        let choose = |pool: &mut Pool| pool.choose(&self.segments, sizes, room, now, may);
        let chosen = choose(&mut pool);
        if chosen.is_some() || may == May::Clean {
            return chosen;
        }
        // Only what is dead makes up for what has to be opened in its place.
        let least = if may == May::Evict {
            1
        } else {
            self.capacity / WORTH
        };
        let gain = |group: &AtomicU32| match group.load(Ordering::Relaxed) {
            NONE => 0,
            index if may == May::Evict => self.segments[index as usize].used(),
            index => self.segments[index as usize].dead(),
        };
        if let Some(group) = self.open.iter().max_by_key(|group| gain(group))
            && gain(group) >= least
        {
            let index = group.swap(NONE, Ordering::AcqRel);
            self.segments[index as usize].seal();
            pool.sealed(index);
            return choose(&mut pool);
        }
        if may == May::Compact {
            return None;
        }
        for index in to.0.iter_mut().filter(|index| **index != NONE) {
            self.segments[*index as usize].seal();
            pool.sealed(*index);
            *index = NONE;
        }
        choose(&mut pool)
    }

    /// A segment that was chosen keeps its items.
    pub(super) fn put_back(&self, segment: u32) {
        self.pool().put_back(segment);
    }

    /// The same, for want of a place to move them to.
    pub(super) fn give_up(&self, segment: u32, now: u32) {
        let mut pool = self.pool();
        pool.put_back(segment);
        pool.found_nothing(May::Compact, now);
    }

    /// A segment whose items have all left the table may be used again once all guards are dropped
    /// that may have found them.
    pub(super) fn retire(&self, segment: u32, epochs: &Epochs) {
        let mut pool = self.pool();
        pool.retire(segment, epochs);
        let dropped = pool.collect(epochs);
        self.note_shortage(&pool);
        drop(pool);
        drop(dropped);
    }

    /// Frees what nobody reads any more. True: something still waits for guards to be dropped.
    pub(super) fn collect(&self, epochs: &Epochs) -> bool {
        let mut pool = self.pool();
        let dropped = pool.collect(epochs);
        let waits = pool.is_waiting();
        drop(pool);
        drop(dropped);
        waits
    }

    /// What is wanted is there, or what it lacks.
    pub(super) fn lack(&self, wanted: Wants) -> Lack {
        let pool = self.pool();
        let segment = self.segment_bytes();
        match wanted {
            Wants::Segment if pool.available(self.allowed()) > FOR_MOVES => Lack::Nothing,
            Wants::Segment if pool.soon_available(self.allowed()) > FOR_MOVES => Lack::Readers,
            Wants::Segment => Lack::Units(self.capacity),
            Wants::Large(length) => {
                let kept = (pool.used() + FOR_MOVES + 1) as usize * segment;
                let all = self.large.load(Ordering::Relaxed) + length + kept;
                match all.saturating_sub(self.memory()) {
                    0 => Lack::Nothing,
                    excess if excess <= pool.waiting(segment) => Lack::Readers,
                    excess => Lack::Units(self.units(excess.min(segment))),
                }
            }
        }
    }

    /// Were there, when last one was opened or taken back, so few left that it is time to take some
    /// back?
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed) != 0
    }

    /// Has a sealed segment become free of items since this was last asked? It tells most of them:
    /// the others are found when all segments are looked at.
    #[inline]
    pub(super) fn has_dead(&self) -> bool {
        self.has_dead.load(Ordering::Relaxed) != 0 && self.has_dead.swap(0, Ordering::Relaxed) != 0
    }

    fn note_shortage(&self, pool: &Pool) {
        let enough = FOR_MOVES + 2 + self.allowed() / 32;
        let short = pool.soon_available(self.allowed()) < enough;
        self.short.store(u32::from(short), Ordering::Relaxed);
    }

    /// All sealed segments are to be looked through for items that are not valid.
    pub(super) fn sweep(&self) {
        self.pool().sweep();
    }

    /// The location of a segment's first item, and the one behind its last that is not dead for
    /// certain; for a segment that was chosen to be taken back.
    pub(super) fn range(&self, segment: u32) -> (u32, u32) {
        let start = segment * self.capacity;
        let segment = &self.segments[segment as usize];
        let (dead, used) = (segment.dead(), segment.used());
        (start, if dead >= used { start } else { start + used })
    }

    /// Is nothing of the segment in the table any more?
    pub(super) fn is_dead(&self, segment: u32) -> bool {
        let segment = &self.segments[segment as usize];
        segment.dead() >= segment.used()
    }

    /// Are there long values?
    pub(super) fn has_large(&self) -> bool {
        self.large.load(Ordering::Relaxed) > 0
    }

    /// A segment's group.
    pub(super) fn group_of(&self, segment: u32) -> usize {
        self.segments[segment as usize].group()
    }

    /// Units of a segment.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    fn segment_bytes(&self) -> usize {
        (self.capacity as usize) << self.unit
    }

    fn segment(&self, location: u32) -> &Segment {
        &self.segments[(location / self.capacity) as usize]
    }

    fn room_at(&self, segment: u32, at: u32) -> Room {
        Room {
            location: segment * self.capacity + at,
        }
    }

    #[inline]
    fn at(&self, location: u32) -> NonNull<u8> {
        let bytes = (location as usize) << self.unit;
        debug_assert!(bytes < self.segments.len() * self.segment_bytes());
        // SAFETY: locations are made of segments that there are and units inside of them.
        unsafe { self.heap.start().add(bytes) }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Expiry as a number that is the greater the later.
fn last_second(expires: u32) -> u32 {
    match expires {
        0 => u32::MAX,
        _ => expires,
    }
}

#[cfg(test)]
mod tests;
