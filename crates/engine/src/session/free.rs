//! The free slots, in a few lock-free stacks.
//!
//! Taking and returning a slot is one compare-and-swap, whether the array is empty or has one free
//! slot left; random probing, as the paper's insertion does it, would need a hundred probes, each a
//! cache miss, when the array is 99 % full. A stack also hands out the slot returned last, which is
//! likely still in the cache.
//!
//! One stack for all threads would have them fight for its head at every login and logout, so there
//! are several, each slot having its home in one. A taker starts at the stack that its user id
//! hashes to (not one chosen by the session's random bits: the slot is no secret, and would betray
//! some of them) and goes on to the next where it finds nothing.
//!
//! A head holds the first slot and a tag that changes with every push, without which a head that
//! went from A to B and back to A would pass for unchanged (ABA). The tag's 32 bits suffice unless
//! a thread sleeps through exactly 2^32 pushes to one stack.

use super::atomic::{AtomicU32, AtomicU64, Ordering};
use super::slot::Slot;
use rhythm_protocol::scan::prefetch;

/// Not a slot: the end of a list.
const NONE: u32 = u32::MAX;

/// The stacks of free slots of one array.
pub(super) struct FreeList {
    /// Their number is a power of two.
    stacks: Box<[Stack]>,
}

/// One stack, on cache lines of its own (processors fetch lines in pairs).
#[repr(align(128))]
struct Stack {
    /// Tag in the high half, first slot in the low.
    head: AtomicU64,
    /// Slots in the stack, or a few more.
    count: AtomicU32,
}

impl FreeList {
    /// Slots 0 to `capacity` - 1, all free, in at most `stacks_max` stacks (at least 1).
    pub(super) fn new(capacity: u32, stacks_max: u32) -> (FreeList, Box<[Slot]>) {
        let stacks = 1 << capacity.clamp(1, stacks_max).ilog2();
        let link = |slot: u32| match slot.checked_add(stacks) {
            Some(next) if next < capacity => next,
            _ => NONE,
        };
        let slots = (0..capacity).map(|slot| Slot::free(link(slot))).collect();
        let stacks = (0..stacks)
            .map(|home| Stack {
                head: AtomicU64::new(pack(0, if home < capacity { home } else { NONE })),
                count: AtomicU32::new(capacity / stacks + u32::from(home < capacity % stacks)),
            })
            .collect();
        (FreeList { stacks }, slots)
    }

    /// Takes a free slot, which the caller then owns. `None` only if there was a moment during the
    /// call at which no stack had one.
    pub(super) fn take(&self, slots: &[Slot], user: i64) -> Option<u32> {
        let mask = self.stacks.len() - 1;
        // The multiplier is 2^64 divided by the golden ratio: it spreads consecutive ids evenly.
        let start = ((user as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        let mut before = None;
        loop {
            let mut tags = 0u64;
            for step in 0..=mask {
                match self.stacks[(start + step) & mask].pop(slots) {
                    Ok(slot) => return Some(slot),
                    Err(tag) => tags += u64::from(tag),
                }
            }
            // Tags only grow, so the same sum twice means that nothing moved between the two
            // rounds: all stacks were empty at once, not one after the other.
            if before == Some(tags) {
                return None;
            }
            before = Some(tags);
        }
    }

    /// Returns a slot that the caller owns.
    pub(super) fn give(&self, slots: &[Slot], slot: u32) {
        self.stacks[slot as usize & (self.stacks.len() - 1)].push(slots, slot);
    }

    /// Free slots, give or take those that threads are just taking or returning.
    pub(super) fn count(&self) -> usize {
        let counts = self.stacks.iter().map(|s| s.count.load(Ordering::Relaxed));
        counts.map(|count| count as usize).sum()
    }
}

impl Stack {
    /// The first slot, or the tag if there is none.
    fn pop(&self, slots: &[Slot]) -> Result<u32, u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let (tag, first) = unpack(head);
            if first == NONE {
                return Err(tag);
            }
            // If another thread has taken the slot, this is not a link, but then the tag has
            // changed and the exchange fails.
            let next = slots[first as usize].next();
            match self.swap(head, pack(tag, next)) {
                Ok(()) => {
                    // Where the next session goes: its link is read when it is taken.
                    if let Some(next) = slots.get(next as usize) {
                        prefetch(next);
                    }
                    break;
                }
                Err(actual) => head = actual,
            }
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        Ok(unpack(head).1)
    }

    fn push(&self, slots: &[Slot], slot: u32) {
        // Counted before it can be taken, so that the count never falls below zero.
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let (tag, first) = unpack(head);
            slots[slot as usize].set_next(first);
            match self.swap(head, pack(tag.wrapping_add(1), slot)) {
                Ok(()) => break,
                Err(actual) => head = actual,
            }
        }
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        self.head
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }
}

fn pack(tag: u32, slot: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(slot)
}

fn unpack(head: u64) -> (u32, u32) {
    ((head >> 32) as u32, head as u32)
}
