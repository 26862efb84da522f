//! Which segments are free, which are full and in what order they came, and which one is taken back
//! next.

use super::large::Large;
use super::segment::Segment;
use crate::store::epoch::{Epochs, Stamp};
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// A segment is worth compacting where such a part of it is dead.
pub(super) const WORTH: u32 = 32;
/// So many are looked at for one that is evicted: others wait for the pool meanwhile.
const LOOKS: usize = 256;

/// The segments that are not open. Together with the open ones they are all that there are.
pub(super) struct Pool {
    /// Free ones that were used before, and whose memory is resident.
    pub(super) free: Vec<u32>,
    /// Free ones whose memory went back to the system.
    cold: Vec<u32>,
    /// This one and all behind it were never used.
    fresh: u32,
    total: u32,
    /// Sealed ones, the oldest first.
    sealed: VecDeque<u32>,
    /// Of the sealed ones so many at the front are looked through in any case: they have items that
    /// a flush took, or may have items that expired.
    sweep: usize,
    /// Where in these the next look begins that is not at all of them.
    look_from: usize,
    /// Those that nobody can find, but someone may still read.
    retired: VecDeque<(Stamp, u32)>,
    large: VecDeque<(Stamp, Arc<Large>)>,
    /// The last second for which nothing was found that [`May::Clean`] and [`May::Compact`] let be
    /// taken back, if all is as it was: of a large store that is full, every write that is refused
    /// would look through all segments.
    nothing: [Option<u32>; 2],
}

/// What becomes of the valid items of a segment that is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// There are none.
    Drop,
    /// They move to another one.
    Move,
    /// Those that were fetched of late move, up to half of the segment; others are evicted.
    Evict,
    /// They stay, and the segment goes back to the others.
    Stay,
}

/// Which segments may be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// Those without valid items, and those that are to be looked through.
    Clean,
    /// Those with enough dead items, too.
    Compact,
    /// Any, where compacting would not give much.
    Evict,
}

/// What there is to be done for what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing: it is there.
    Nothing,
    /// Enough was taken back; those who may still read it have to drop their guards.
    Readers,
    /// So many units are to be taken back next, a segment's at most.
    Units(u32),
}

impl Pool {
    pub(super) fn new(total: u32) -> Pool {
        Pool {
            free: Vec::new(),
            cold: Vec::new(),
            fresh: 0,
            total,
            sealed: VecDeque::new(),
            sweep: 0,
            look_from: 0,
            retired: VecDeque::new(),
            large: VecDeque::new(),
            nothing: [None; 2],
        }
    }

    /// With these segments sealed, the oldest first, and others in use; for a pool that is new.
    pub(super) fn restore(&mut self, sealed: Vec<u32>, open: &[u32]) {
        let used: HashSet<u32> = sealed.iter().chain(open).copied().collect();
        self.fresh = used.iter().max().map_or(0, |last| last + 1);
        // The lowest are taken first.
        self.free = (0..self.fresh).rev().collect();
        self.free.retain(|index| !used.contains(index));
        self.sealed = sealed.into();
    }

    /// Segments with items, or with some that may still be read.
    pub(super) fn used(&self) -> u32 {
        self.fresh - (self.free.len() + self.cold.len()) as u32
    }

    /// Of the used ones, those that are full.
    pub(super) fn sealed_ones(&self) -> impl Iterator<Item = u32> {
        self.sealed.iter().copied()
    }

    /// Of the used ones, those that only readers still keep.
    pub(super) fn retired(&self) -> u32 {
        self.retired.len() as u32
    }

    /// Of the used ones, all others.
    pub(super) fn held(&self) -> u32 {
        self.used() - self.retired()
    }

    /// Segments that can be opened, where so many may be used.
    pub(super) fn available(&self, allowed: u32) -> u32 {
        allowed.min(self.total).saturating_sub(self.used())
    }

    /// The same, with those that wait for guards to be dropped.
    pub(super) fn soon_available(&self, allowed: u32) -> u32 {
        self.available(allowed) + self.retired.len() as u32
    }

    /// May one be opened to move to, where so many may be used? Where there is none left, one at a
    /// time: what is given up for it makes up for it, once nobody reads that any more. Where more
    /// are in use than may be, moves make them less.
    pub(super) fn may_move(&self, allowed: u32) -> bool {
        self.available(allowed) > 0 || self.retired.is_empty() || self.held() > allowed
    }

    /// Takes a free segment.
    pub(super) fn take(&mut self) -> Option<u32> {
        let used_before = self.free.pop().or_else(|| self.cold.pop());
        used_before.or_else(|| {
            let fresh = (self.fresh < self.total).then_some(self.fresh)?;
            self.fresh += 1;
            Some(fresh)
        })
    }

    /// The segments never used that come among the next so many.
    pub(super) fn fresh(&self, next: u32) -> Range<u32> {
        let used_before = (self.free.len() + self.cold.len()) as u32;
        let end = self.fresh + next.saturating_sub(used_before);
        self.fresh..end.min(self.total)
    }

    /// Where the segments end that will be used, where so many may be; the others were never.
    pub(super) fn fresh_end(&self, allowed: u32) -> u32 {
        let resident = self.used() + self.free.len() as u32;
        let more = allowed.saturating_sub(resident);
        self.fresh.saturating_add(more).min(self.total)
    }

    /// The free segments whose memory is more than so many may have: the caller gives it back.
    pub(super) fn chill(&mut self, allowed: u32) -> &[u32] {
        let before = self.cold.len();
        let resident = self.used() as usize + self.free.len();
        let excess = resident.saturating_sub(allowed as usize);
        let kept = self.free.len().saturating_sub(excess);
        self.cold.extend(self.free.drain(kept..));
        &self.cold[before..]
    }

    /// A segment is sealed.
    pub(super) fn sealed(&mut self, segment: u32) {
        self.sealed.push_back(segment);
        self.look_again();
    }

    /// A segment that was chosen is sealed still.
    pub(super) fn put_back(&mut self, segment: u32) {
        self.sealed.push_back(segment);
    }

    /// Nothing was found now that may be taken back.
    pub(super) fn found_nothing(&mut self, may: May, now: u32) {
        if let Some(nothing) = self.nothing.get_mut(may as usize) {
            *nothing = Some(now);
        }
    }

    /// Something may be found again.
    pub(super) fn look_again(&mut self) {
        self.nothing = [None; 2];
    }

    /// All segments that are sealed now are looked through.
    pub(super) fn sweep(&mut self) {
        self.sweep = self.sealed.len();
        self.look_again();
    }

    /// Nothing finds the items of the segment any more.
    pub(super) fn retire(&mut self, segment: u32, epochs: &Epochs) {
        self.retired.push_back((epochs.retire(), segment));
    }

    /// Nothing finds the item any more that had this value.
    pub(super) fn retire_large(&mut self, large: Arc<Large>, epochs: &Epochs) {
        self.large.push_back((epochs.retire(), large));
    }

    /// Frees what nobody can read any more. The long values among it are for the caller to drop,
    /// which may take long.
    pub(super) fn collect(&mut self, epochs: &Epochs) -> Vec<Arc<Large>> {
        if self.retired.is_empty() && self.large.is_empty() {
            return Vec::new();
        }
        let free = epochs.free();
        let segments = self.retired.partition_point(|(stamp, _)| *stamp <= free);
        if segments > 0 {
            // There is room for moves.
            self.look_again();
        }
        self.free
            .extend(self.retired.drain(..segments).map(|(_, segment)| segment));
        let values = self.large.partition_point(|(stamp, _)| *stamp <= free);
        (self.large.drain(..values))
            .map(|(_, large)| large)
            .collect()
    }

    /// Does something wait for guards to be dropped?
    pub(super) fn is_waiting(&self) -> bool {
        !(self.retired.is_empty() && self.large.is_empty())
    }

    /// Bytes that are free when guards are dropped, with segments of so many. A long value that
    /// another item has as well, or a client who takes it slowly, is not.
    pub(super) fn waiting(&self, segment: usize) -> usize {
        let alone = (self.large.iter()).filter(|(_, large)| Arc::strong_count(large) == 1);
        self.retired.len() * segment + alone.map(|(_, large)| large.len()).sum::<usize>()
    }

    /// Takes the segment out of the sealed ones that is taken back next, and what becomes of its
    /// items. `room` is all memory there is, in units.
    pub(super) fn choose(
        &mut self,
        segments: &[Segment],
        (unit, capacity): (u32, u32),
        room: u64,
        now: u32,
        may: May,
    ) -> Option<(u32, Fate)> {
        let nothing = self.nothing.get(may as usize).copied().flatten();
        if nothing.is_some_and(|second| now <= second) {
            return None;
        }
        let quiet = |index: &u32| segments[*index as usize].quiet();
        let count = self.sealed.len();
        // What may be evicted is chosen for every segment that is filled. Of very many some are
        // looked at then, and others the next time: what all are like is reckoned from these.
        let (from, looks) = match may {
            May::Evict if count > LOOKS => (self.look_from % count, LOOKS),
            _ => (0, count),
        };
        let first_quiet = self.sealed.iter().position(|index| quiet(index).is_some());
        let mut most = (0, 0);
        let mut live = 0;
        let mut all_quiet = true;
        for place in (from..from + looks).map(|place| place % count) {
            let index = self.sealed[place];
            let segment = &segments[index as usize];
            let Some(used) = quiet(&index) else {
                all_quiet = false;
                continue;
            };
            let dead = segment.dead();
            if segment.expires() <= now || dead >= used {
                return Some((self.remove(place), Fate::Drop));
            }
            if dead > most.0 {
                most = (dead, place);
            }
            live += u64::from(used - dead) + (segment.elsewhere() >> unit);
        }
        self.look_from = from + looks;
        let live = live * count as u64 / looks.max(1) as u64;
        // Where much is dead, moving the rest costs less than evicting it. Each such move leaves
        // less that is dead in all, so that it comes to an end.
        let worth = match may {
            May::Clean => false,
            May::Compact => most.0 >= capacity / WORTH,
            May::Evict => most.0 >= capacity / 8 && live <= room / 8 * 7,
        };
        match (may, first_quiet) {
            _ if worth => Some((self.remove(most.1), Fate::Move)),
            (May::Evict, Some(first)) => Some((self.remove(first), Fate::Evict)),
            (May::Clean, Some(first)) if self.sweep > 0 => Some((self.remove(first), Fate::Stay)),
            _ => {
                // Nobody says when a segment becomes quiet.
                if all_quiet {
                    self.found_nothing(may, now);
                }
                None
            }
        }
    }

    fn remove(&mut self, place: usize) -> u32 {
        if place < self.sweep {
            self.sweep -= 1;
        }
        if place < self.look_from {
            self.look_from -= 1;
        }
        self.sealed
            .remove(place)
            .expect("the place was found in the queue")
    }
}
