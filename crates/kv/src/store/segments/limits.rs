//! How much memory items may have, which changes while they are used.

use super::layout::SEGMENTS_MIN;
use super::{FOR_MOVES, Segments};
use crate::store::atomic::Ordering;

impl Segments {
    /// Bytes for segments and long values.
    pub(in crate::store) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// From now on there are so many bytes for items, or the fewest that are possible. Where that
    /// is less than is in use, [`shrink`](Self::shrink) says so. False: there are no addresses for
    /// as many.
    pub(in crate::store) fn set_memory(&self, memory: usize) -> bool {
        let memory = memory.max(SEGMENTS_MIN * self.segment_bytes());
        if memory > self.memory_max {
            return false;
        }
        let mut pool = self.pool();
        self.memory.store(memory, Ordering::Relaxed);
        pool.look_again();
        self.note_shortage(&pool);
        true
    }

    /// Gives back to the system what is free and more than may be used. True: more is in use than
    /// may be, beside what only readers still keep.
    pub(in crate::store) fn shrink(&self) -> bool {
        let mut pool = self.pool();
        self.chill(&mut pool);
        pool.held() > self.allowed()
    }

    /// Can long values of so many bytes together ever find room?
    pub(in crate::store) fn is_possible(&self, large: usize) -> bool {
        large + (FOR_MOVES as usize + 4) * self.segment_bytes() <= self.memory()
    }

    /// Bytes of the segments that are used, and of long values.
    pub(in crate::store) fn bytes_used(&self) -> usize {
        self.pool().used() as usize * self.segment_bytes() + self.large.load(Ordering::Relaxed)
    }

    /// Bytes of long values.
    pub(in crate::store) fn large_bytes(&self) -> usize {
        self.large.load(Ordering::Relaxed)
    }

    /// Segments that may be used beside the long values there are.
    pub(super) fn allowed(&self) -> u32 {
        let large = self.large.load(Ordering::Relaxed);
        (self.memory().saturating_sub(large) / self.segment_bytes()) as u32
    }
}
