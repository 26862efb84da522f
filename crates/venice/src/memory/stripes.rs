//! Slots over several stores, extent by extent: each store has donors of its own.
//!
//! ```text
//!   slot       0 ..     256 ..    512 ..    768 ..
//!   of three   store 0  store 1   store 2   store 0, its second extent
//! ```

use super::store::{Bytes, Counts, Event, Gone, Store, Whose};
use super::supply::{News, Notice, Source};
use rustix::event::PollFlags;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// Slots that lie together, a mebibyte: free ones are given back in runs.
const EXTENT: u32 = 256;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Stripes {
    /// At least one.
    stores: Vec<Store>,
    source: Source,
}

/// Which store a slot is of, and which slot it is there.
fn place(slot: u32, stores: u32) -> (usize, u32) {
    let extent = slot / EXTENT;
    let within = extent / stores * EXTENT + slot % EXTENT;
    ((extent % stores) as usize, within)
}

/// The inverse of [`place`].
fn slot(store: usize, within: u32, stores: u32) -> u32 {
    (within / EXTENT * stores + store as u32) * EXTENT + within % EXTENT
}

/// How many slots each of so many stores has, of so many in all.
pub(super) fn slots_each(slots: u64, stores: u64) -> u64 {
    let extent = u64::from(EXTENT);
    match stores {
        1 => slots,
        _ => slots.div_ceil(extent).div_ceil(stores) * extent,
    }
}

impl Stripes {
    /// Over these stores, of which there is one at least, and what tells them of donors.
    pub(super) fn new(stores: Vec<Store>, source: Source) -> Self {
        debug_assert!(!stores.is_empty(), "slots are somewhere");
        Self { stores, source }
    }

    fn count(&self) -> u32 {
        self.stores.len() as u32
    }

    fn at(&mut self, slot: u32) -> (&mut Store, u32) {
        let (store, within) = place(slot, self.count());
        (&mut self.stores[store], within)
    }

    /// See [`Store::write`].
    pub(super) fn write(&mut self, slot: u32, bytes: &Bytes, now: Instant) {
        let (store, within) = self.at(slot);
        store.write(within, bytes, now);
    }

    /// See [`Store::in_flight`].
    pub(super) fn in_flight(&self, slot: u32) -> Option<Arc<Bytes>> {
        let (store, within) = place(slot, self.count());
        self.stores[store].in_flight(within)
    }

    /// See [`Store::in_flight_count`].
    pub(super) fn in_flight_count(&self) -> usize {
        self.stores.iter().map(Store::in_flight_count).sum()
    }

    /// See [`Store::read`]; no two stores give the same ticket.
    pub(super) fn read(&mut self, slot: u32, whose: Whose, now: Instant) -> u64 {
        let count = self.count();
        let (index, within) = place(slot, count);
        let ticket = self.stores[index].read(within, whose, now);
        ticket * u64::from(count) + index as u64
    }

    /// See [`Store::forget`].
    pub(super) fn forget(&mut self, slot: u32) {
        let (store, within) = self.at(slot);
        store.forget(within);
    }

    /// See [`Store::free`]; the slots lie together.
    pub(super) fn free(&mut self, first: u32, count: usize, now: Instant) {
        let end = first + count as u32;
        let mut next = first;
        while next < end {
            let extent_end = (next / EXTENT + 1) * EXTENT;
            let part = extent_end.min(end) - next;
            let (store, within) = self.at(next);
            store.free(within, part as usize, now);
            next += part;
        }
    }

    /// See [`Store::flush`].
    pub(super) fn flush(&mut self) {
        self.stores.iter_mut().for_each(Store::flush);
    }

    /// See [`Store::is_due`].
    pub(super) fn is_due(&self) -> bool {
        self.stores.iter().any(Store::is_due)
    }

    /// See [`Store::receive`].
    ///
    /// # Errors
    /// [`Gone`].
    pub(super) fn receive(&mut self, now: Instant) -> Result<Vec<Event>, Gone> {
        let count = self.count();
        let mut all = Vec::new();
        for (index, store) in self.stores.iter_mut().enumerate() {
            all.extend(store.receive(now)?.into_iter().map(|event| match event {
                Event::Stored(within) => Event::Stored(slot(index, within, count)),
                Event::Page(ticket, whose, bytes) => {
                    let ticket = ticket * u64::from(count) + index as u64;
                    Event::Page(ticket, whose, bytes)
                }
            }));
        }
        Ok(all)
    }

    /// See [`Store::look`].
    pub(super) fn look(&mut self, now: Instant) {
        self.stores.iter_mut().for_each(|store| store.look(now));
    }

    /// Hears what is new of donors, when [`bell`](Self::bell) can be read.
    pub(super) fn hear(&mut self, now: Instant) {
        for news in self.source.take() {
            match news {
                News::Found(store, found) => self.stores[store].found(found, now),
                News::Notice(Notice::Wanted { loan, within }) => {
                    let mut stores = self.stores.iter_mut();
                    stores.any(|store| store.is_wanted(loan, within, now));
                }
                News::Notice(Notice::Broken { loan, why }) => {
                    let mut stores = self.stores.iter_mut();
                    stores.any(|store| store.is_broken(loan, &why, now));
                }
            }
        }
    }

    /// What is readable when there is something to hear.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// See [`Store::waits`].
    pub(super) fn waits(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.stores.iter().flat_map(Store::waits)
    }

    /// See [`Store::is_filling`].
    pub(super) fn is_filling(&self) -> bool {
        self.stores.iter().any(Store::is_filling)
    }

    /// What happened to donors.
    pub(super) fn counts(&self) -> Counts {
        let counts = self.stores.iter().map(|store| store.counts);
        counts.fold(Counts::default(), |all, it| Counts {
            lost: all.lost + it.lost,
            moved: all.moved + it.moved,
            copied: all.copied + it.copied,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_place_of_its_own() {
        for stores in [1, 2, 3, 8] {
            let slots = 5000;
            let each = slots_each(slots.into(), stores.into());
            let mut places = std::collections::HashSet::new();
            for number in 0..slots {
                let (store, within) = place(number, stores);
                assert!(u64::from(within) < each, "{number} of {stores}");
                assert!(places.insert((store, within)));
                assert_eq!(slot(store, within, stores), number);
            }
            let lies_together = |&number: &u32| {
                let ((a, b), (c, d)) = (place(number, stores), place(number + 1, stores));
                a == c && b + 1 == d
            };
            let borders = (0..slots - 1)
                .filter(|number| !lies_together(number))
                .count();
            assert_eq!(borders, if stores == 1 { 0 } else { 4999 / 256 });
        }
        assert_eq!(
            (slots_each(1, 1), slots_each(1, 2), slots_each(513, 2)),
            (1, 256, 512)
        );
    }
}
