//! A bucket: a cache line with twelve slots, each a tag (8 bits of the hash) and a location.
//!
//! ```text
//!   byte  0        4        8                 16                                         64
//!         | state  | tags   | tags of the     | locations of items, 4 bytes each          |
//!         |        | 8..12  | first 8 slots   |                                           |
//! ```
//!
//! Tags are compared all at once, with the carry-free tricks that a 64-bit word allows. Tag 0 means
//! that the slot is free.
//!
//! Who holds the bucket's lock (bit 0 of the state) changes its slots; readers take no lock. A
//! reader that finds a tag loads the location and asks whether the item has its key, so a slot that
//! changes between the two loads costs it nothing but the try, and what it finds needs no second
//! look. Only *not* finding does: an item may have been moved to another bucket, where the reader
//! had looked before it came. So the other bits of the state count the items that moved out, and a
//! mover puts the item into its new bucket, then counts, then clears the old slot. A reader that
//! saw the slot cleared therefore sees the count, too, if it looks again; and if it had seen that
//! count from the start, it saw the item in its new place. 2^31 moves out of one bucket between two
//! loads of a reader would fool it.
#![allow(unsafe_code)]

use super::super::atomic::{AtomicU32, AtomicU64, Ordering, wait};
use super::super::chunks::Zeroed;

/// The slots of a bucket.
pub(super) const SLOTS: usize = 12;

/// See the head of this file. All bytes zero is an empty bucket.
#[repr(C, align(64))]
pub(super) struct Bucket {
    state: AtomicU32,
    tags_high: AtomicU32,
    tags_low: AtomicU64,
    locations: [AtomicU32; SLOTS],
}

const LOCKED: u32 = 1;
const MOVE: u32 = 2;

/// How many items had moved out of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moves(u32);

impl Bucket {
    /// The count of moves, to be compared with a later one.
    #[inline]
    pub(super) fn moves(&self) -> Moves {
        Moves(self.state.load(Ordering::Acquire) & !LOCKED)
    }

    /// Waits for the lock and takes it.
    pub(super) fn lock(&self) {
        let mut rounds = 0;
        while !self.try_lock() {
            wait(rounds);
            rounds = rounds.saturating_add(1);
        }
    }

    /// Takes the lock if nobody holds it.
    pub(super) fn try_lock(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & LOCKED == 0
            && (self.state)
                .compare_exchange(state, state | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Gives the lock back; for who holds it.
    pub(super) fn unlock(&self) {
        let state = self.state.load(Ordering::Relaxed);
        debug_assert!(state & LOCKED != 0, "only who holds the lock gives it back");
        self.state.store(state & !LOCKED, Ordering::Release);
    }

    /// The slots with this tag. The loads acquire, so that whoever looks at the state afterwards
    /// sees the moves that cleared a slot.
    #[inline]
    pub(super) fn matches(&self, tag: u8) -> Slots {
        let low = equal_bytes(self.tags_low.load(Ordering::Acquire), tag);
        let high = equal_bytes(u64::from(self.tags_high.load(Ordering::Acquire)), tag);
        Slots(low | (high & 0xf) << 8)
    }

    /// The free slots.
    pub(super) fn free(&self) -> Slots {
        self.matches(0)
    }

    /// The slots that are taken.
    pub(super) fn taken(&self) -> Slots {
        Slots(!self.free().0 & ((1 << SLOTS) - 1))
    }

    #[inline]
    pub(super) fn location(&self, slot: usize) -> u32 {
        self.locations[slot].load(Ordering::Acquire)
    }

    /// The slot's tag.
    pub(super) fn tag(&self, slot: usize) -> u8 {
        match slot {
            0..8 => (self.tags_low.load(Ordering::Relaxed) >> (8 * slot)) as u8,
            _ => (self.tags_high.load(Ordering::Relaxed) >> (8 * (slot - 8))) as u8,
        }
    }

    /// Fills a slot, or gives it another item; for who holds the lock. The location is stored
    /// first, so that a reader that sees the tag finds the item (what was there before is an item
    /// still, and not the reader's).
    pub(super) fn put(&self, slot: usize, tag: u8, location: u32) {
        self.locations[slot].store(location, Ordering::Release);
        self.set_tag(slot, tag);
    }

    /// Frees a slot; for who holds the lock.
    pub(super) fn clear(&self, slot: usize) {
        self.set_tag(slot, 0);
    }

    /// Counts a move out of this bucket: after the item is in its new place, and before its old
    /// slot is cleared. For who holds the lock.
    pub(super) fn count_move(&self) {
        let state = self.state.load(Ordering::Relaxed);
        self.state
            .store(state.wrapping_add(MOVE), Ordering::Release);
    }

    fn set_tag(&self, slot: usize, tag: u8) {
        match slot {
            0..8 => {
                let tags = self.tags_low.load(Ordering::Relaxed) & !(0xff << (8 * slot));
                let tags = tags | u64::from(tag) << (8 * slot);
                self.tags_low.store(tags, Ordering::Release);
            }
            _ => {
                let shift = 8 * (slot - 8);
                let tags = self.tags_high.load(Ordering::Relaxed) & !(0xff << shift);
                let tags = tags | u32::from(tag) << shift;
                self.tags_high.store(tags, Ordering::Release);
            }
        }
    }
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket {
            state: AtomicU32::new(0),
            tags_high: AtomicU32::new(0),
            tags_low: AtomicU64::new(0),
            locations: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

// SAFETY: it consists of atomic integers, all zero by default, aligned to 64.
unsafe impl Zeroed for Bucket {}

/// Some slots of a bucket, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots(u32);

impl Slots {
    pub(super) fn count(self) -> u32 {
        self.0.count_ones()
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let slot = (self.0 != 0).then(|| self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

/// Which of the eight bytes are `byte`; bit i speaks of byte i.
#[inline]
fn equal_bytes(bytes: u64, byte: u8) -> u32 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let differ = bytes ^ (LOW * u64::from(byte));
    // The high bit of each byte is set where any of its bits is, and no carry leaves a byte.
    let zero = !(((differ & SEVEN) + SEVEN) | differ | SEVEN);
    // The high bits, gathered into the top byte.
    ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_whatever_stands_beside_them() {
        for case in 0..10_000_u64 {
            let bytes = case
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(case as u32);
            // Bytes of few values, so that there are neighbors one apart.
            let bytes = bytes & 0x8181_8181_8181_8181;
            for byte in [0, 1, 0x80, 0x81, 0xff] {
                let expected = (bytes.to_le_bytes().iter().enumerate())
                    .fold(0, |mask, (i, found)| mask | u32::from(*found == byte) << i);
                assert_eq!(
                    equal_bytes(bytes, byte),
                    expected,
                    "{bytes:016x} {byte:02x}"
                );
            }
        }
    }
}
