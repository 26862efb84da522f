//! Table, segments and epochs joined: the one place where a location becomes an item. What it
//! shows is safe: an item can be found under a [`Guard`] only, and cannot be held beyond it.
#![allow(unsafe_code)]

mod rest;

pub use rest::NotLeft;

use super::epoch::Epochs;
use super::hash::{Hash, Secret};
use super::segments::{Body, Destinations, Fate, Item, Large, May, Room, Segments, Wants, Words};
use super::table::{Locked, Oracle, Slot, Table};
use std::sync::atomic::{AtomicBool, Ordering};

/// All items of a store.
pub(super) struct Items {
    pub(super) secret: Secret,
    pub(super) table: Table,
    pub(super) segments: Segments,
    epochs: Epochs,
    seats: Box<[AtomicBool]>,
}

/// A worker's right to guards: one at a time.
pub(super) struct Seat {
    index: usize,
    of: usize,
}

impl Items {
    /// None where the system has no memory.
    pub(super) fn new(segments: Segments, workers: usize, secret: Secret) -> Option<Items> {
        Some(Items {
            secret,
            table: Table::new()?,
            segments,
            epochs: Epochs::new(workers),
            seats: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// A seat that nobody has, until it is given back.
    pub(super) fn sit(&self) -> Option<Seat> {
        let take = |seat: &AtomicBool| !seat.swap(true, Ordering::Acquire);
        let index = self.seats.iter().position(take)?;
        Some(Seat {
            index,
            of: self.address(),
        })
    }

    /// Gives a seat back.
    pub(super) fn stand(&self, seat: &mut Seat) {
        assert_eq!(seat.of, self.address(), "a seat of another store");
        self.seats[seat.index].store(false, Ordering::Release);
    }

    /// A guard: what is found from now on stays readable until it is dropped.
    #[inline]
    pub(super) fn pin<'t>(&'t self, seat: &'t mut Seat) -> Guard<'t> {
        assert_eq!(seat.of, self.address(), "a seat of another store");
        self.epochs.pin(seat.index);
        Guard { items: self, seat }
    }

    /// Which items these are. A store is behind a reference while there are seats, so they do not
    /// move.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Grows the table by a bucket or two if it is crowded.
    pub(super) fn grow(&self, _guard: &Guard<'_>) {
        for _ in 0..2 {
            if !self.table.is_crowded() || !self.table.grow(self) {
                return;
            }
        }
    }
}

impl Oracle for Items {
    fn hash_of(&self, location: u32) -> Hash {
        // SAFETY: the table alone asks (no other file of the store calls this, and the trait is not
        // seen beyond the store), and about what is in a bucket that this thread has locked
        // (`split`, `vacate`): it stays in the table until this returns.
        let item = unsafe { self.segments.item(location) };
        self.secret.hash(item.key())
    }

    fn prefetch(&self, location: u32) {
        self.segments.prefetch(location);
    }
}

impl Drop for Items {
    /// Long values have counts in items, which only their leaving the table gives up.
    fn drop(&mut self) {
        if self.segments.has_large() {
            for location in self.table.locations() {
                // SAFETY: it is in the table and leaves it now; there are no guards any more.
                unsafe { self.segments.died(location, &self.epochs) };
            }
        }
    }
}

/// A worker's guard: the items that are found under it can be read until it is dropped.
pub(super) struct Guard<'t> {
    items: &'t Items,
    seat: &'t mut Seat,
}

impl Guard<'_> {
    /// The index of the worker.
    pub(super) fn worker(&self) -> usize {
        self.seat.index
    }

    /// Makes another guard of this one, from which nothing is borrowed any more.
    pub(super) fn renew(&mut self) {
        self.items.epochs.pin(self.seat.index);
    }

    /// Has other guards made anew that may be in the way of what was retired.
    pub(super) fn want_way(&self) {
        self.items.epochs.want();
    }

    /// Whether that was asked for since this one was made.
    #[inline]
    pub(super) fn is_in_the_way(&self) -> bool {
        self.items.epochs.is_wanted(self.seat.index)
    }

    /// Starts loading the items that look like the hash's.
    #[inline]
    pub(super) fn prefetch_items(&self, hash: Hash) {
        let segments = &self.items.segments;
        let _ = (self.items.table).find(hash, |location| {
            segments.prefetch(location);
            None::<()>
        });
    }

    /// The key's item.
    #[inline]
    pub(super) fn find(&self, hash: Hash, key: &[u8]) -> Option<Item<'_>> {
        self.items.table.find(hash, |location| {
            // SAFETY: found in the table, under this guard, which outlasts the borrow.
            let item = unsafe { self.items.segments.item(location) };
            (item.key() == key).then_some(item)
        })
    }

    /// The items in a bucket, as the next of a walk; see [`Table::walk`]. False: it is over.
    pub(super) fn walk(&self, bucket: usize, mut each: impl FnMut(Item<'_>)) -> bool {
        let Some((locations, count)) = self.items.table.walk(bucket) else {
            return false;
        };
        for location in &locations[..count] {
            // SAFETY: it was in the table, under this guard, which outlasts the borrow.
            each(unsafe { self.items.segments.item(*location) });
        }
        true
    }

    /// Takes the locks of a hash.
    pub(super) fn lock(&self, hash: Hash) -> Locks<'_> {
        Locks {
            items: self.items,
            locked: self.items.table.lock(hash),
        }
    }

    /// Takes room for an item of so many units.
    pub(super) fn room(&self, group: usize, units: u32) -> Result<Room, Wants> {
        self.items.segments.room(group, units, &self.items.epochs)
    }

    /// Frees what nobody reads any more. True: something still waits for guards to be dropped.
    pub(super) fn collect(&self) -> bool {
        self.items.segments.collect(&self.items.epochs)
    }

    /// Memory for a long value of so many bytes, to be filled; none where the system refuses it.
    pub(super) fn reserve(&self, length: usize) -> Result<Option<Large>, Wants> {
        self.items.segments.reserve(length, &self.items.epochs)
    }

    /// A long value of these parts, and blanks behind them; none where the system refuses the
    /// memory.
    pub(super) fn large<'a>(
        &self,
        parts: [&[u8]; 2],
        blanks: usize,
    ) -> Result<Option<Body<'a>>, Wants> {
        let segments = &self.items.segments;
        let large = segments.large(parts, blanks, &self.items.epochs)?;
        Ok(large.map(Body::Large))
    }

    /// The next victim.
    pub(super) fn victim(&self, now: u32, may: May, to: &mut Destinations) -> Option<Victim> {
        let segments = &self.items.segments;
        let (segment, fate) = segments.choose(now, may, to)?;
        let (at, end) = segments.range(segment);
        Some(Victim {
            segment,
            fate,
            at,
            end,
        })
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.items.epochs.unpin(self.seat.index);
    }
}

/// The locks of a hash's buckets.
pub(super) struct Locks<'t> {
    items: &'t Items,
    locked: Locked<'t>,
}

/// An item and the slot that it is in, in buckets that are locked.
#[derive(Clone, Copy)]
pub(super) struct Found<'t> {
    slot: Slot<'t>,
    location: u32,
    pub(super) item: Item<'t>,
}

impl<'t> Locks<'t> {
    /// The key's item.
    pub(super) fn find(&self, key: &[u8]) -> Option<Found<'t>> {
        (self.locked.find(|location| self.at(location).key() == key)).map(|slot| self.found(slot))
    }

    /// All items in the locked buckets.
    pub(super) fn all(&self) -> impl Iterator<Item = Found<'t>> {
        self.locked.taken().map(|slot| self.found(slot))
    }

    fn found(&self, slot: Slot<'t>) -> Found<'t> {
        let location = slot.location();
        let item = self.at(location);
        Found {
            slot,
            location,
            item,
        }
    }

    /// An item is in the table until it is replaced or removed once.
    fn check(&self, found: &Found<'t>) {
        assert!(found.slot.has(found.location), "it left the table before");
    }

    fn at(&self, location: u32) -> Item<'t> {
        // SAFETY: what is in a locked bucket is in the table, and the guard under which the lock
        // is held outlasts `'t`.
        unsafe { self.items.segments.item(location) }
    }

    /// A free slot. None: another item must give up its own.
    pub(super) fn vacancy(&self) -> Option<Slot<'t>> {
        self.locked.vacancy(self.items)
    }

    /// Writes an item into its room and puts it into a free slot.
    pub(super) fn fill(
        &mut self,
        slot: Slot<'t>,
        room: Room,
        key: &[u8],
        words: &Words,
        body: Body<'_>,
    ) {
        let location = self.items.segments.write(room, key, words, body);
        self.locked.fill(slot, location);
    }

    /// Writes an item into its room and puts it into the place of another.
    pub(super) fn replace(
        &mut self,
        old: Found<'t>,
        room: Room,
        key: &[u8],
        words: &Words,
        body: Body<'_>,
    ) {
        self.check(&old);
        let location = self.items.segments.write(room, key, words, body);
        self.locked.replace(old.slot, location);
        // SAFETY: it was in the table until now, in a bucket that is locked, as was checked.
        unsafe { self.items.segments.died(old.location, &self.items.epochs) };
    }

    /// Takes an item out of the table.
    pub(super) fn remove(&mut self, old: Found<'t>) {
        self.check(&old);
        self.locked.remove(old.slot);
        // SAFETY: as in `replace`.
        unsafe { self.items.segments.died(old.location, &self.items.epochs) };
    }

    /// Lets an item expire then, in place. False: it would outlive its segment.
    pub(super) fn touch(&self, found: Found<'t>, expires: u32) -> bool {
        let can = self.items.segments.outlives(found.location, expires);
        if can {
            found.item.set_expires(expires);
        }
        can
    }

    /// Lets an item expire then, in place, and its segment last as long. What expires sooner there
    /// stays as long, too, but for what is looked for by itself.
    pub(super) fn prolong(&self, found: Found<'t>, expires: u32) {
        self.items.segments.prolong(found.location, expires);
        found.item.set_expires(expires);
    }
}

/// What is being taken back.
pub(super) struct Reclaim {
    pub(super) victim: Option<Victim>,
    pub(super) destinations: Destinations,
    /// Units of the victim that were looked at, and that moved.
    pub(super) seen: u32,
    pub(super) moved: u32,
    /// The second in which all segments were last looked through for want of anything better.
    pub(super) swept: u32,
}

impl Reclaim {
    pub(super) fn new() -> Reclaim {
        Reclaim {
            victim: None,
            destinations: Destinations::new(),
            seen: 0,
            moved: 0,
            swept: 0,
        }
    }
}

/// A segment that is being taken back, and how far.
pub(super) struct Victim {
    segment: u32,
    pub(super) fate: Fate,
    at: u32,
    end: u32,
}

/// What lies in a victim: an item, or what was one once.
pub(super) struct Remains<'v> {
    location: u32,
    /// Its size.
    pub(super) units: u32,
    key: &'v [u8],
}

impl Victim {
    /// What comes next; the victim goes on behind it.
    pub(super) fn next<'v>(&mut self, guard: &'v Guard<'_>) -> Option<Remains<'v>> {
        let location = (self.at < self.end).then_some(self.at)?;
        let segments = &guard.items.segments;
        // SAFETY: the segment was chosen, so that this victim alone is taking it back, and quiet:
        // whole items lie in it one behind the other, from its beginning up to `end`, and `at` is
        // where one of them begins. Whether an item is in the table still does not matter: the
        // segment is retired by this victim's end at the soonest, and its memory is used again
        // after all guards that there were then, this one among them.
        let item = unsafe { segments.item(location) };
        let units = segments.units(item.length());
        self.at += units;
        assert!(self.at <= self.end, "items fill a segment up to its end");
        let key = item.key();
        Some(Remains {
            location,
            units,
            key,
        })
    }

    /// There is nowhere to move its items to: they stay, and it goes back to the others.
    pub(super) fn give_up(self, guard: &Guard<'_>, now: u32) {
        guard.items.segments.give_up(self.segment, now);
    }

    /// The end: either nothing of it is in the table any more, or its items stay.
    pub(super) fn end(self, guard: &Guard<'_>) {
        let segments = &guard.items.segments;
        if segments.is_dead(self.segment) {
            segments.retire(self.segment, &guard.items.epochs);
        } else {
            // Each of its items left the table before, or moved or was evicted, under the locks of
            // its key; put back, such a segment would be chosen again and again.
            assert_eq!(self.fate, Fate::Stay, "an item of a victim was passed over");
            segments.put_back(self.segment);
        }
    }

    /// Room to move something of it to.
    pub(super) fn room(
        &self,
        guard: &Guard<'_>,
        to: &mut Destinations,
        units: u32,
    ) -> Option<Room> {
        let segments = &guard.items.segments;
        segments.room_to_move(to, segments.group_of(self.segment), units)
    }
}

impl<'v> Remains<'v> {
    /// Takes the locks of its key, and finds it, if it is in the table still.
    pub(super) fn lock(&self, guard: &'v Guard<'_>) -> (Locks<'v>, Option<Found<'v>>) {
        let locks = guard.lock(guard.items.secret.hash(self.key));
        // By its location: another item of the key may have taken its place.
        let slot = locks.locked.find(|other| other == self.location);
        let found = slot.map(|slot| locks.found(slot));
        (locks, found)
    }

    /// Moves it to other room.
    pub(super) fn relocate(&self, locks: &mut Locks<'v>, found: Found<'v>, room: Room) {
        let segments = &locks.items.segments;
        locks.check(&found);
        let to = segments.copy(room, found.item);
        locks.locked.replace(found.slot, to);
        segments.left(self.location, found.item);
    }
}
