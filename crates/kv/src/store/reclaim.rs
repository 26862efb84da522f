//! How memory is taken back: segment by segment, and of a segment item by item, a few with each
//! write.
//!
//! A *victim* is chosen: a segment whose items have all expired or died, or that a flush took; else
//! one with so many dead items that moving the others pays; else, if items may be evicted, the
//! oldest. Its items are looked at in order. What left the table long ago is passed over, what is
//! not valid leaves it, and the rest moves or is evicted. Then the segment is retired and, when all
//! guards are dropped that may have found something in it, free.
//!
//! Eviction is FIFO with another round for what is in use, merge-based as in Segcache (NSDI 2021):
//! an item that was fetched since it was written or last moved goes to a segment of survivors of
//! its group, a degree colder, up to half of what was looked at, so that a victim gives at least
//! half of its memory. The rest is evicted.
//!
//! A segment of which nothing is left is freed by the write that took its last item away.
//!
//! Writers do the rest themselves as soon as few segments are left: for each byte written, some
//! bytes of a victim, so that no write waits for a whole segment. Where that came too late, one
//! takes back what it lacks, and waits until no other worker may still read it. That cannot last:
//! who waits has a new guard and holds nobody up, and who does not goes on with its turn, and makes
//! its guard anew between two connections where it sees that somebody waits
//! ([`Pinned::make_way`]). Only a thread that gets no processor is waited for any longer.

use super::counters::Counter;
use super::items::{Guard, Reclaim, Remains, Victim};
use super::segments::{Fate, Item, Lack, May, Wants};
use super::{Pinned, Store};
use std::sync::{MutexGuard, TryLockError};
use std::time::Duration;

/// Units looked at for each unit written: a victim gives a half of what is looked at, or more.
const WORK: u32 = 4;
/// Units looked at with each write at least.
const WORK_MIN: u32 = 64;
/// Segments that a write looks through for expired items before it is refused.
const SWEEPS: u32 = 8;
/// How often under one guard writes without room let other threads go on, for these to drop their
/// guards: first at once, which is enough where all of them have a processor, then for a while
/// each, so that one that has none gets this one. Writes are refused when they have waited for
/// about a second in all, for which no thread goes without a processor on a machine that works.
const YIELDS: u32 = 100;
const NAPS: u32 = 8000;
const NAP: Duration = Duration::from_micros(50);
const WAITS_MAX: u32 = YIELDS + NAPS;

/// What a piece of work came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// There may be more to be done.
    More,
    /// There is nothing that may be taken back.
    Nothing,
}

impl Pinned<'_> {
    /// Does a bounded piece of what can be done ahead: takes back the memory of items that have
    /// expired or were flushed. To be called now and then, such as once a second, and as long as
    /// there is nothing else to do and it says that there may be more.
    pub fn tend(&mut self, now: u32) -> bool {
        self.store.tend_to(&mut self.guard, now) == Progress::More
    }

    /// Where another worker waits for memory that may be read under this guard, makes a new one of
    /// it. To be called within a turn that may take long, whenever nothing is borrowed.
    #[inline]
    pub fn make_way(&mut self) {
        if self.guard.is_in_the_way() {
            self.guard.renew();
        }
    }

    /// Makes a new guard of it, whoever waits: what this worker has replaced until now can go. As
    /// [`make_way`](Self::make_way), whenever nothing is borrowed.
    pub(crate) fn renew(&mut self) {
        self.guard.renew();
    }

    /// Makes room for what is wanted. False: there is none to be made now.
    pub(super) fn make_room(&mut self, wanted: Wants, now: u32) -> bool {
        let segments = &self.store.items.segments;
        let mut swept = 0;
        loop {
            // No item is borrowed from the guard here, so this worker need not hold back any. Under
            // it no lock must be waited for, either: who has the lock may wait for the guard.
            self.guard.renew();
            let waits = self.guard.collect();
            let (progress, waits) = match segments.lack(wanted) {
                Lack::Nothing => return true,
                // More would be of no use before others drop their guards.
                Lack::Readers => (Progress::Nothing, true),
                Lack::Units(units) => match self.store.try_reclaim() {
                    Some(mut reclaim) => {
                        let (store, guard) = (self.store, &self.guard);
                        let progress = store.take_more(guard, &mut reclaim, units, now, &mut swept);
                        (progress, waits)
                    }
                    None => (Progress::Nothing, true),
                },
            };
            if progress == Progress::Nothing && !(waits && self.wait()) {
                return false;
            }
        }
    }

    /// Lets other workers go on, to drop their guards. False: that was done for too long.
    fn wait(&mut self) -> bool {
        self.guard.want_way();
        match self.waited {
            0..YIELDS => std::thread::yield_now(),
            YIELDS..WAITS_MAX => std::thread::sleep(NAP),
            _ => return false,
        }
        self.waited += 1;
        true
    }
}

impl Store {
    /// Takes back what has expired or, where more is used than may be, what is evicted: a segment's
    /// worth of items at most.
    fn tend_to(&self, guard: &mut Guard<'_>, now: u32) -> Progress {
        if self.flushes.settle(now) {
            self.items.segments.sweep();
        }
        guard.renew();
        guard.collect();
        let may = match self.items.segments.shrink() {
            true => self.may(),
            false => May::Clean,
        };
        match self.try_reclaim() {
            Some(mut reclaim) => {
                let units = self.items.segments.capacity();
                self.reclaim(guard, &mut reclaim, units, now, may)
            }
            None => Progress::More,
        }
    }

    /// After a write of so many units: if segments are short, takes some more back. Segments that
    /// became free of items are taken back at once in any case: they are used again while they are
    /// in the caches, and fresh memory, whose first touch is dear, is left alone.
    pub(super) fn help(&self, guard: &Guard<'_>, written: u32, now: u32) {
        let segments = &self.items.segments;
        let (units, may) = if segments.is_short() {
            (written.saturating_mul(WORK).max(WORK_MIN), self.may())
        } else if segments.has_dead() {
            (1, May::Clean)
        } else {
            return;
        };
        if let Some(mut reclaim) = self.try_reclaim() {
            self.reclaim(guard, &mut reclaim, units, now, may);
        }
    }

    /// Takes back what it can where a write found no room. `swept`: the segments that it looked
    /// through for want of anything better.
    fn take_more(
        &self,
        guard: &Guard<'_>,
        reclaim: &mut Reclaim,
        units: u32,
        now: u32,
        swept: &mut u32,
    ) -> Progress {
        let progress = self.reclaim(guard, reclaim, units, now, self.may());
        if progress == Progress::More {
            return progress;
        }
        if reclaim.swept != now {
            // Expired items may lie among others; once a second is often enough to look.
            reclaim.swept = now;
            self.items.segments.sweep();
        }
        if *swept == SWEEPS {
            return Progress::Nothing;
        }
        *swept += 1;
        self.reclaim(guard, reclaim, units, now, May::Clean)
    }

    fn may(&self) -> May {
        match self.options.evict {
            true => May::Evict,
            false => May::Compact,
        }
    }

    fn try_reclaim(&self) -> Option<MutexGuard<'_, Reclaim>> {
        match self.reclaim.try_lock() {
            Ok(reclaim) => Some(reclaim),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Looks at items of victims, until it has looked at so many units, or given back as many with
    /// their long values.
    fn reclaim(
        &self,
        guard: &Guard<'_>,
        state: &mut Reclaim,
        units: u32,
        now: u32,
        may: May,
    ) -> Progress {
        let mut left = i64::from(units);
        // With the next guard there may be a place to move to.
        let mut given_up = Progress::Nothing;
        while left > 0 {
            let Some(mut victim) = state.victim.take().or_else(|| {
                (state.seen, state.moved) = (0, 0);
                guard.victim(now, may, &mut state.destinations)
            }) else {
                return Progress::Nothing;
            };
            let Some(remains) = victim.next(guard) else {
                victim.end(guard);
                given_up = Progress::More;
                continue;
            };
            let Some(elsewhere) = self.take_back(guard, &victim, &remains, state, now) else {
                // Another may need no room: what expires, or is deleted, leaves its segment dead.
                victim.give_up(guard, now);
                return given_up;
            };
            left -= i64::from(remains.units) + i64::from(self.items.segments.units(elsewhere));
            state.seen += remains.units;
            state.victim = Some(victim);
        }
        Progress::More
    }

    /// Takes an item out of a victim, and tells the bytes that it held elsewhere where it is gone.
    /// None: it has to move, and there is nowhere to.
    fn take_back(
        &self,
        guard: &Guard<'_>,
        victim: &Victim,
        remains: &Remains<'_>,
        state: &mut Reclaim,
        now: u32,
    ) -> Option<usize> {
        let (mut locks, Some(found)) = remains.lock(guard) else {
            return Some(0);
        };
        let valid = self.is_valid(&found.item, now);
        let units = remains.units;
        let moves = match victim.fate {
            Fate::Stay if valid => return Some(0),
            Fate::Drop | Fate::Move | Fate::Stay => valid,
            Fate::Evict => {
                let fits = state.moved + units <= (state.seen + units) / 2;
                valid && found.item.heat() > 0 && fits
            }
        };
        let room = moves.then(|| victim.room(guard, &mut state.destinations, units));
        match room.flatten() {
            Some(room) => {
                remains.relocate(&mut locks, found, room);
                state.moved += units;
            }
            None if valid && !self.options.evict => return None,
            None => {
                self.count_removed(guard, &found.item, valid);
                let elsewhere = found.item.elsewhere() as usize;
                locks.remove(found);
                return Some(elsewhere);
            }
        }
        Some(0)
    }

    /// Counts an item that leaves the table unasked.
    pub(super) fn count_removed(&self, guard: &Guard<'_>, item: &Item<'_>, valid: bool) {
        let (all, unfetched) = match valid {
            true => (Counter::Evicted, Counter::EvictedUnfetched),
            false => (Counter::Expired, Counter::ExpiredUnfetched),
        };
        let counters = self.counters(guard);
        counters.add(all, 1);
        counters.add(Counter::BytesOut, item.size() as u64);
        if !item.is_fetched() {
            counters.add(unfetched, 1);
        }
    }
}
