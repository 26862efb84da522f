//! Segments that nobody uses: as they are left in a memory file, and as they are found there.

use super::large::Large;
use super::{Destinations, GROUPS, Item, Layout, NONE, Segments, last_second};
use crate::store::atomic::Ordering;
use std::sync::Arc;

/// A segment with items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct AtRest {
    pub(in crate::store) index: u32,
    /// Units of it that are used.
    pub(in crate::store) used: u32,
    pub(in crate::store) group: usize,
    /// More items may be written into it.
    pub(in crate::store) is_open: bool,
}

impl Segments {
    /// All segments that may have items, those that were sealed first before others. None: an item
    /// was never written to its end.
    pub(in crate::store) fn at_rest(
        &self,
        victim: Option<u32>,
        to: &Destinations,
    ) -> Option<Vec<AtRest>> {
        let pool = self.pool();
        let moved_to = to.0.iter().copied();
        let sealed = victim.into_iter().chain(pool.sealed_ones()).chain(moved_to);
        let open = self.open.iter().map(|index| index.load(Ordering::Acquire));
        let all = sealed
            .map(|index| (index, false))
            .chain(open.map(|index| (index, true)));
        all.filter(|(index, _)| *index != NONE)
            .map(|(index, is_open)| {
                let segment = &self.segments[index as usize];
                Some(AtRest {
                    index,
                    used: segment.whole()?,
                    group: segment.group(),
                    is_open,
                })
            })
            .collect()
    }

    /// Can there be such segments here, each once?
    pub(in crate::store) fn are_possible(&self, all: &[AtRest]) -> bool {
        let mut seen = vec![false; self.segments.len()];
        let mut open = [false; GROUPS];
        all.iter().all(|of| {
            let is_new = (seen.get_mut(of.index as usize))
                .is_some_and(|seen| !std::mem::replace(seen, true));
            let group = open.get_mut(of.group);
            let fits = group.is_some_and(|open| !of.is_open || !std::mem::replace(open, true));
            is_new && fits && of.used <= self.capacity
        })
    }

    /// The segments beside these.
    pub(in crate::store) fn beside(&self, all: &[AtRest]) -> Vec<u32> {
        let mut is_used = vec![false; self.segments.len()];
        all.iter().for_each(|of| is_used[of.index as usize] = true);
        let free = is_used.iter().enumerate().filter(|(_, is_used)| !**is_used);
        free.map(|(index, _)| index as u32).collect()
    }

    /// The locations of a segment's first item, and of what is behind its last.
    pub(in crate::store) fn locations(&self, of: AtRest) -> (u32, u32) {
        let start = of.index * self.capacity;
        (start, start + of.used)
    }

    /// What lies at a location, and how many units it takes, if it can be an item that ends at
    /// `end` or before.
    ///
    /// # Safety
    /// The segment is nobody else's as long as `'p` lasts.
    pub(in crate::store) unsafe fn item_left<'p>(
        &self,
        location: u32,
        end: u32,
    ) -> Option<(Item<'p>, u32)> {
        let room = (end.checked_sub(location)? as usize) << self.unit;
        // SAFETY: the room is inside of the segment; memory of the heap is zeros, or what was
        // written there, so that it is initialized; and by contract nobody writes to it.
        let item = unsafe { Item::left_at(self.at(location), room) }?;
        // The room is whole units.
        Some((item, self.units(item.length())))
    }

    /// Leaves an item without its long value, which the caller has from now on.
    ///
    /// # Safety
    /// It has one, it has left the table, and there are no guards any more.
    pub(in crate::store) unsafe fn leave_large(&self, item: Item<'_>) -> Option<Arc<Large>> {
        // SAFETY: the same contract.
        unsafe { item.leave_large() }
    }

    /// Gives a long value to an item that was left without; `fill` knows its bytes.
    ///
    /// # Safety
    /// The item lies in a segment that nobody uses yet.
    pub(in crate::store) unsafe fn put_back_large<E>(
        &self,
        item: Item<'_>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some(large) = Large::new(item.large_left(), &self.large) else {
            return Ok(false);
        };
        let mut large = large.zeroed();
        fill(large.bytes_mut())?;
        // SAFETY: by contract nobody finds it yet, and it was left without.
        unsafe { item.put_back_large(Arc::new(large)) };
        Ok(true)
    }

    /// Takes a segment up again.
    pub(in crate::store) fn take_up(&self, of: AtRest) {
        self.segments[of.index as usize].restore(of.group, of.used, of.is_open);
    }

    /// Notes so many units more of a segment that was taken up to which nothing refers.
    pub(in crate::store) fn add_dead(&self, of: AtRest, units: u32) {
        self.segments[of.index as usize].died(units, 0);
    }

    /// How many there are.
    pub(in crate::store) fn count(&self) -> u64 {
        self.segments.len() as u64
    }

    /// How they are cut.
    pub(in crate::store) fn layout(&self) -> Layout {
        Layout {
            unit: self.unit,
            capacity: self.capacity,
        }
    }

    /// Notes an item of a segment that was taken up.
    pub(in crate::store) fn note(&self, location: u32, item: Item<'_>) {
        let expires = last_second(item.expires());
        self.segment(location).note(expires, item.elsewhere());
    }

    /// From now on these segments are those that are used; all of them were taken up.
    pub(in crate::store) fn begin_with(&self, all: &[AtRest]) {
        let index = |of: &AtRest| of.index;
        let sealed = all.iter().filter(|of| !of.is_open).map(index).collect();
        let open: Vec<_> = all.iter().filter(|of| of.is_open).map(index).collect();
        let mut pool = self.pool();
        pool.restore(sealed, &open);
        for of in all.iter().filter(|of| of.is_open) {
            self.open[of.group].store(of.index, Ordering::Release);
        }
        self.has_dead.store(1, Ordering::Relaxed);
        self.note_shortage(&pool);
    }
}
