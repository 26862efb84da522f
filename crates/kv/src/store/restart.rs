//! A store that is found again after a restart (memcached's `--memory-file`).
//!
//! Its heap is memory of a file. While a server runs, the file is of no use to anybody else: what
//! is in it changes all the time. When the server ends in order, what refers to nothing is marked
//! ([`super::items`]), all is synced, and last of all the metadata ([`super::meta`]) is written
//! beside it, with a checksum of each segment. The next server empties that before it does anything
//! else; compares the checksums, looks at each item in turn, and makes a new table of those that
//! are valid, under a new secret. Items stay where they are, byte for byte.
//!
//! Seconds go on as if the server had run all the while: the clock is begun where it stood, and
//! what passed meanwhile by the calendar.
//!
//! So a store begins with the items that were there at the end of the last one, or with none, and
//! then says why: it did not end in order, is used with other options, or is damaged.

use super::flush::Flushes;
use super::items::NotLeft;
use super::memory_file::{FileError, Left, MemoryFile};
use super::meta::{Meta, Unkept};
use super::segments::{Item, Layout, Segments};
use super::{Counter, Store, StoreError, StoreOptions};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why there is no store in a memory file.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a store begins with.
#[derive(Debug)]
pub struct Opened {
    /// The second with which the clock goes on; 0: any.
    pub now: u32,
    /// How many items were found again, or why none was.
    pub items: Result<u64, Unkept>,
    /// How many were left there, where that is known.
    pub left: Option<u64>,
}

/// What a store has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Items that the next one finds.
    pub items: u64,
    /// Long values for which there was no room.
    pub lost: u64,
}

impl Store {
    /// A store whose items are in a file, with those that an earlier one has
    /// [left](Store::leave_items) there. `unix` is the second of the calendar. Its memory is no
    /// more than at the start.
    ///
    /// # Errors
    /// Where the file is another server's or another program's, or has no room, or there is no
    /// memory for the table. What is in a file that is ours is no reason.
    pub fn open(
        options: StoreOptions,
        path: &Path,
        unix: u64,
    ) -> Result<(Store, Opened), OpenError> {
        let file = MemoryFile::open(path)?;
        // What was left is read before anything of it is changed.
        let left = match file.left() {
            Left::New => Err(Unkept::New),
            Left::Nothing => Err(Unkept::NotLeft),
            Left::Unreadable(error) => Err(Unkept::System(error)),
            Left::Meta(bytes) => Meta::read(&bytes),
        };
        // The heap stays cut as it is where that goes with the memory there is now.
        let cut = left.as_ref().ok().map(|meta| meta.layout);
        let cut = cut.filter(|layout| layout.suits(options.memory));
        let layout = cut.unwrap_or_else(|| Layout::of(options.memory));
        let bytes = layout.bytes(options.memory);
        file.reserve(bytes)?;
        let make = || -> Result<Store, OpenError> {
            let heap = file.region(bytes)?;
            let segments = Segments::on(heap, layout, options.memory, options.memory);
            Ok(Store::with(options.clone(), segments)?)
        };
        let mut store = make()?;
        file.begin()?;
        let count = left.as_ref().ok().map(|meta| meta.rest.items);
        let items = left.and_then(|meta| store.find_again(&file, &meta, unix));
        let opened = match items {
            Ok((now, items)) => Opened {
                now,
                items: Ok(items),
                left: count,
            },
            Err(why) => {
                // What it has begun with is of no use.
                drop(store);
                store = make()?;
                Opened {
                    now: 0,
                    items: Err(why),
                    left: count,
                }
            }
        };
        store.file = Some(file);
        Ok((store, opened))
    }

    /// Finds the items again; in which second, and how many.
    fn find_again(
        &mut self,
        file: &MemoryFile,
        meta: &Meta,
        unix: u64,
    ) -> Result<(u32, u64), Unkept> {
        self.fits(meta)?;
        // A calendar that went back is no reason for items to live longer than they had to.
        let passed = unix.saturating_sub(meta.unix);
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        let now = meta.now.saturating_add(passed);
        self.flushes = Flushes::with(meta.flushed);
        self.cas = AtomicU64::new(meta.cas);
        let is_valid = |item: &Item<'_>| self.is_valid(item, now);
        let found = self.items.find_again(&meta.rest, file, is_valid)?;
        let counters = self.counters.first().ok_or(Unkept::Memory)?;
        counters.add(Counter::Stored, found.items);
        counters.add(Counter::BytesIn, found.bytes);
        Ok((now, found.items))
    }

    /// Is the store as the one was that left the items?
    fn fits(&self, meta: &Meta) -> Result<(), Unkept> {
        let options = &self.options;
        let layout = self.items.segments.layout();
        let compared = [
            ("-I", meta.item_max, options.item_max as u64),
            ("CAS ids (0: -C)", meta.has_cas.into(), options.cas.into()),
        ];
        for (option, then, now) in compared {
            if then != now {
                return Err(Unkept::Option { option, then, now });
            }
        }
        if layout != meta.layout {
            let (least, most) = meta.layout.bounds();
            return Err(Unkept::Size {
                then: meta.memory,
                now: options.memory as u64,
                least: least as u64,
                most: most as u64,
            });
        }
        let segments = &meta.rest.segments;
        let last = segments.iter().map(|(of, _)| u64::from(of.index) + 1).max();
        let size = layout.segment_bytes() as u64;
        let many = segments.len() as u64 + meta.rest.long.0.div_ceil(size);
        let (needs, has) = (many.max(last.unwrap_or(0)), self.items.segments.count());
        if needs > has {
            let [needs, has] = [needs, has].map(|count| count * size);
            return Err(Unkept::Room { needs, has });
        }
        Ok(())
    }

    /// Leaves the items in the memory file for the next store, as the last thing that is done with
    /// this one: it has no workers, and will have none. `now` and `unix` are the same moment.
    ///
    /// # Errors
    /// Where it cannot; then the next one begins without.
    pub fn leave_items(&self, now: u32, unix: u64) -> Result<Kept, NotLeft> {
        let file = self.file.as_ref().ok_or(NotLeft::NoFile)?;
        if !self.items.close() {
            return Err(NotLeft::InUse);
        }
        let reclaim = self.reclaim.lock().unwrap_or_else(PoisonError::into_inner);
        let (rest, lost) = self.items.rest(&reclaim, file)?;
        let items = rest.items;
        let meta = Meta {
            layout: self.items.segments.layout(),
            memory: self.options.memory as u64,
            item_max: self.options.item_max as u64,
            has_cas: self.options.cas,
            now,
            unix,
            cas: self.cas.load(Ordering::Relaxed),
            flushed: self.flushes.flushed(),
            rest,
        };
        file.leave(meta.text().as_bytes())?;
        Ok(Kept { items, lost })
    }
}

#[cfg(test)]
mod tests;
