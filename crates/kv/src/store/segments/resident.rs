//! Which memory of the heap is resident: made so ahead, and given back to the system.
#![allow(unsafe_code)]

use super::Segments;
use super::pool::Pool;

/// Of the memory such a part may be resident ahead that will not be used as it is now.
const AHEAD_MORE: usize = 32;

impl Segments {
    /// Gives memory of free segments back to the system that is more than may be used.
    pub(super) fn chill(&self, pool: &mut Pool) {
        let (allowed, size) = (self.allowed(), self.segment_bytes());
        for &cold in pool.chill(allowed) {
            let start = cold as usize * size;
            // SAFETY: the segment is free: nothing in it can be found, no guard that there is could
            // ever find it, and who opens it has to take the pool's lock first.
            unsafe { self.heap.release(start..start + size) };
        }
        // What was made resident ahead, and is not to be used any more beside long values. Not for
        // each of these that comes: what goes here is made resident anew when they leave.
        let end = pool.fresh_end(allowed) as usize * size;
        if self.heap.populated() > end + self.memory() / AHEAD_MORE {
            // SAFETY: from `end` on no segment was ever used, and who opens one has to take the
            // pool's lock first.
            unsafe { self.heap.release_ahead(end) };
        }
    }

    /// Makes a piece of so many bytes of memory resident that are used next, or of fewer. True:
    /// there is more to be done. None where the system cannot.
    pub(in crate::store) fn populate(&self, bytes: usize) -> Option<bool> {
        let pool = self.pool();
        let wanted = u32::try_from(bytes / self.segment_bytes() + 1).unwrap_or(u32::MAX);
        let fresh = pool.fresh(pool.available(self.allowed()).min(wanted));
        drop(pool);
        let [start, end] = [fresh.start, fresh.end].map(|at| at as usize * self.segment_bytes());
        self.heap.populate(start..end)
    }
}
