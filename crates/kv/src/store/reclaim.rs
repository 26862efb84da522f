//! How memory is taken back: segment by segment, and of a segment item by item, a few with each
//! write.
//!
//! A *victim* is chosen: a segment whose items have all expired or died, or that a flush took; else
//! one with so many dead items that moving the others pays; else, if items may be evicted, the
//! oldest. Its items are looked at in order. What left the table long ago is passed over, what is
//! not valid leaves it, and the rest moves or is evicted. Then the segment is retired and, when all
//! turns are over that may have found something in it, free.
//!
//! Eviction is FIFO with another round for what is in use, merge-based as in Segcache (NSDI 2021):
//! an item that was fetched since it was written or last moved goes to a segment of survivors of
//! its group, a degree colder, up to half of what was looked at, so that a victim gives at least
//! half of its memory. The rest is evicted.
//!
//! Writers do this themselves as soon as few segments are left: for each byte written, some bytes
//! of a victim, so that no write waits for a whole segment. Only where that came too late, one
//! does.

use super::counters::Counter;
use super::items::{Reclaim, Remains, Turn, Victim};
use super::segments::{Fate, Item, May, Wants};
use super::{Pinned, Store};
use std::sync::{MutexGuard, TryLockError};
use std::time::Duration;

/// Units looked at for each unit written: a victim gives a half of what is looked at, or more.
const WORK: u32 = 4;
/// Units looked at with each write at least.
const WORK_MIN: u32 = 64;
/// Segments that a write looks through for expired items before it is refused.
const SWEEPS: u32 = 8;
/// How often a writer without room lets others go on, for their turns to end, and how often it
/// sleeps then, before it is refused: a tenth of a second.
const YIELDS: u32 = 100;
const SLEEPS: u32 = 1000;
const SLEEP: Duration = Duration::from_micros(100);

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
        self.store.tend_to(&mut self.turn, now) == Progress::More
    }
}

impl Store {
    /// Takes back what has expired, a segment's worth of items at most.
    fn tend_to(&self, turn: &mut Turn<'_>, now: u32) -> Progress {
        if self.flushes.settle(now) {
            self.items.segments.sweep();
        }
        turn.renew();
        turn.collect();
        match self.try_reclaim() {
            Some(mut reclaim) => {
                let units = self.items.segments.capacity();
                self.reclaim(turn, &mut reclaim, units, now, May::Clean)
            }
            None => Progress::More,
        }
    }

    /// After a write of so many units: if segments are short, takes some more back.
    pub(super) fn help(&self, turn: &Turn<'_>, written: u32, now: u32) {
        if self.items.segments.is_short()
            && let Some(mut reclaim) = self.try_reclaim()
        {
            let units = written.saturating_mul(WORK).max(WORK_MIN);
            self.reclaim(turn, &mut reclaim, units, now, self.may());
        }
    }

    /// Makes room for what is wanted. False: there is none to be made.
    pub(super) fn make_room(&self, turn: &mut Turn<'_>, wanted: Wants, now: u32) -> bool {
        let segments = &self.items.segments;
        let (mut waited, mut swept) = (0, 0);
        loop {
            // No item of this turn is borrowed here, so this worker need not hold back any. It must
            // not wait for a lock in a turn, either: who has the lock may wait for the turn.
            turn.renew();
            let mut waits = turn.collect();
            if segments.has(wanted) {
                return true;
            }
            let units = match wanted {
                Wants::Segment => segments.capacity(),
                // Long values go one at a time.
                Wants::Large(_) => 1,
            };
            let mut progress = Progress::Nothing;
            if let Some(mut reclaim) = self.try_reclaim() {
                progress = self.reclaim(turn, &mut reclaim, units, now, self.may());
                if progress == Progress::Nothing && reclaim.swept != now {
                    // Expired items may lie among others; once a second is often enough to look.
                    reclaim.swept = now;
                    segments.sweep();
                }
                if progress == Progress::Nothing && swept < SWEEPS {
                    swept += 1;
                    progress = self.reclaim(turn, &mut reclaim, units, now, May::Clean);
                }
            } else {
                waits = true;
            }
            if progress == Progress::Nothing {
                if !waits || waited == YIELDS + SLEEPS {
                    return false;
                }
                waited += 1;
                match waited {
                    0..=YIELDS => std::thread::yield_now(),
                    // Another worker is in the middle of a turn and does not run.
                    _ => std::thread::sleep(SLEEP),
                }
            }
        }
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

    /// Looks at items of victims, until it has looked at so many units.
    fn reclaim(
        &self,
        turn: &Turn<'_>,
        state: &mut Reclaim,
        units: u32,
        now: u32,
        may: May,
    ) -> Progress {
        let mut left = i64::from(units);
        while left > 0 {
            let Some(mut victim) = state.victim.take().or_else(|| {
                (state.seen, state.moved) = (0, 0);
                turn.victim(now, may, &mut state.destinations)
            }) else {
                return Progress::Nothing;
            };
            let Some(remains) = victim.next(turn) else {
                victim.end(turn);
                continue;
            };
            if self.take_back(turn, &victim, &remains, state, now) {
                left -= i64::from(remains.units);
                state.seen += remains.units;
                state.victim = Some(victim);
            } else {
                victim.back(&remains);
                state.victim = Some(victim);
                return Progress::Nothing;
            }
        }
        Progress::More
    }

    /// Takes an item out of a victim. False: it has to move, and there is nowhere to.
    fn take_back(
        &self,
        turn: &Turn<'_>,
        victim: &Victim,
        remains: &Remains<'_>,
        state: &mut Reclaim,
        now: u32,
    ) -> bool {
        let (mut held, Some(found)) = remains.lock(turn) else {
            return true;
        };
        let valid = self.is_valid(&found.item, now);
        let units = remains.units;
        let moves = match victim.fate {
            Fate::Stay if valid => return true,
            Fate::Drop | Fate::Move | Fate::Stay => valid,
            Fate::Evict => {
                let fits = state.moved + units <= (state.seen + units) / 2;
                valid && found.item.heat() > 0 && fits
            }
        };
        let room = moves.then(|| victim.room(turn, &mut state.destinations, units));
        match room.flatten() {
            Some(room) => {
                remains.relocate(&mut held, found, room);
                state.moved += units;
            }
            None if valid && !self.options.evict => return false,
            None => {
                self.count_removed(turn, &found.item, valid);
                held.remove(found);
            }
        }
        true
    }

    /// Counts an item that leaves the table unasked.
    pub(super) fn count_removed(&self, turn: &Turn<'_>, item: &Item<'_>, valid: bool) {
        let (all, unfetched) = match valid {
            true => (Counter::Evicted, Counter::EvictedUnfetched),
            false => (Counter::Expired, Counter::ExpiredUnfetched),
        };
        let counters = self.counters(turn);
        counters.add(all, 1);
        counters.add(Counter::BytesOut, item.size() as u64);
        if !item.is_fetched() {
            counters.add(unfetched, 1);
        }
    }
}
