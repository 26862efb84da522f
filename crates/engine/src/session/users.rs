//! Which slots hold the sessions of a user: what bounds how many one user has.
//!
//! A fixed number of cells, two for each slot. A session's cell is one of the [`WINDOW`] that
//! follow the place its user hashes to, so whoever signs in or out reads a kilobyte and no more. A
//! cell is an entry of open addressing without its chains:
//!
//! ```text
//!   cell = slot + 1 (29 bits) | stamp (23 bits) | tag of the user (12 bits)       0: empty
//! ```
//!
//! The stamp tells which of a user's sessions is the oldest; it counts modulo 2^23, so about as
//! many sign-ins later another of the user's own sessions may pass for the oldest. The tag spares
//! looking at the slots of others.
//!
//! A slot's cell is written by the slot's owner alone: before its session begins, and after it has
//! ended but before the slot is free. So a slot has one cell at most, and a live session has its
//! own, unless all cells of the window are taken: then it is a session as all others but does not
//! count. That takes 128 other live sessions with a place nearby, where one in two cells is empty.

use super::atomic::{AtomicU32, AtomicU64, Ordering};

/// Cells in which a user's sessions can be.
const WINDOW: usize = 128;

const TAG_BITS: u32 = 12;
const STAMP_BITS: u32 = 23;
const STAMP_MASK: u32 = (1 << STAMP_BITS) - 1;

/// More threads than ever sign users in at the same moment.
const AT_ONCE: u32 = 1 << 16;

/// The index. See the head of this file.
pub(super) struct UserIndex {
    cells: Box<[AtomicU64]>,
    /// The next session's stamp.
    stamp: AtomicU32,
}

/// A cell that may be one of a user's.
pub(super) struct Entry {
    pub(super) slot: u32,
    /// How many sign-ins ago it was made.
    pub(super) age: u32,
}

impl UserIndex {
    /// Most slots that cells can name.
    pub(super) const CAPACITY_MAX: u32 = (1 << (u64::BITS - TAG_BITS - STAMP_BITS)) - 2;

    /// Bytes for each slot.
    pub(super) const BYTES: usize = 2 * size_of::<AtomicU64>();

    /// An empty one, for this many slots.
    ///
    /// # Panics
    /// If cells cannot name them all.
    pub(super) fn new(capacity: u32) -> UserIndex {
        assert!(capacity <= UserIndex::CAPACITY_MAX, "too many sessions");
        UserIndex {
            cells: (0..2 * capacity).map(|_| AtomicU64::new(0)).collect(),
            stamp: AtomicU32::new(0),
        }
    }

    /// Enters a slot that the caller owns, for a session of this user.
    pub(super) fn insert(&self, user: i64, slot: u32) {
        let stamp = self.stamp.fetch_add(1, Ordering::Relaxed) & STAMP_MASK;
        let (hash, tag) = hash(user);
        let cell = u64::from(slot + 1) << (TAG_BITS + STAMP_BITS)
            | u64::from(stamp) << TAG_BITS
            | u64::from(tag);
        let empty = |place: &&AtomicU64| {
            place.load(Ordering::Relaxed) == 0
                && place
                    .compare_exchange(0, cell, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        };
        // Where all are taken the session does not count.
        let _ = self.window(hash).find(empty);
    }

    /// Removes a slot that the caller owns, whose session was this user's.
    pub(super) fn remove(&self, user: i64, slot: u32) {
        let (hash, _) = hash(user);
        let is_its = |place: &&AtomicU64| slot_of(place.load(Ordering::Relaxed)) == Some(slot);
        if let Some(place) = self.window(hash).find(is_its) {
            place.store(0, Ordering::Release);
        }
    }

    /// The slots that may have sessions of this user: the slots themselves know.
    pub(super) fn of(&self, user: i64) -> impl Iterator<Item = Entry> {
        let (hash, wanted) = hash(user);
        let next = self.stamp.load(Ordering::Relaxed);
        self.window(hash).filter_map(move |place| {
            let cell = place.load(Ordering::Acquire);
            let tag = cell as u32 & ((1 << TAG_BITS) - 1);
            let stamp = (cell >> TAG_BITS) as u32 & STAMP_MASK;
            // Of a thread that took a later stamp than was read here, the age is none.
            let age = next.wrapping_sub(1).wrapping_sub(stamp) & STAMP_MASK;
            let age = if age > STAMP_MASK - AT_ONCE { 0 } else { age };
            let slot = slot_of(cell).filter(|_| tag == wanted)?;
            Some(Entry { slot, age })
        })
    }

    fn window(&self, hash: u32) -> impl Iterator<Item = &AtomicU64> {
        let count = self.cells.len();
        let start = ((u64::from(hash) * count as u64) >> 32) as usize;
        (0..WINDOW.min(count)).map(move |step| &self.cells[(start + step) % count])
    }
}

fn slot_of(cell: u64) -> Option<u32> {
    ((cell >> (TAG_BITS + STAMP_BITS)) as u32).checked_sub(1)
}

/// A user's place, as a fraction of 2^32, and tag. Who knows how to meet others in their window
/// gains that their sessions do not count, no more.
fn hash(user: i64) -> (u32, u32) {
    let mut hash = (user as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    ((hash >> 32) as u32, hash as u32 & ((1 << TAG_BITS) - 1))
}
