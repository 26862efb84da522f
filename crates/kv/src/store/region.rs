//! Memory from the system: zeroed, resident only where it was touched, in huge pages where the
//! system has them (random reads of a large store otherwise miss the TLB each time).
#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::Range;
use std::ptr::NonNull;

/// The smallest page.
const PAGE: usize = 4096;

/// A range of memory of its own, aligned to pages.
pub(super) struct Region {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region is memory that nothing else knows of, and has no state of its own; who shares
// what lies in it is the business of those who use the pointer.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// That many bytes, all zero; none where the system refuses.
    pub(super) fn new(bytes: usize) -> Option<Region> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping where the system likes takes the place of nothing.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) };
        let at = NonNull::new(at.ok()?.cast::<u8>())?;
        // SAFETY: it is this mapping, and huge pages change nothing but its speed; so a refusal
        // may be ignored.
        let _ = unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Some(Region { at, bytes })
    }

    /// Where it begins. It lasts as long as the region.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.at
    }

    /// Makes pages of a range resident and leaves what is in them, whoever uses it meanwhile. May
    /// take milliseconds. False where the system cannot.
    pub(super) fn populate(&self, range: Range<usize>) -> bool {
        let range = range.start.min(self.bytes)..range.end.min(self.bytes);
        // The system wants the beginning of a page.
        let start = range.start & !(PAGE - 1);
        if start >= range.end {
            return true;
        }
        // SAFETY: the range is inside the mapping.
        let at = unsafe { self.at.as_ptr().add(start) };
        let bytes = range.end - start;
        // SAFETY: populating changes no byte, so it disturbs nobody who uses them.
        unsafe { madvise(at.cast(), bytes, Advice::LinuxPopulateWrite) }.is_ok()
    }

    /// Gives the pages of a range back to the system; they read as zero again.
    ///
    /// # Safety
    /// Nothing in the range is referred to or used by any thread meanwhile.
    pub(super) unsafe fn release(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes);
        // SAFETY: the range is inside the mapping, and by contract nobody uses it.
        let at = unsafe { self.at.as_ptr().add(range.start) };
        // SAFETY: as above. Where the system refuses, the pages stay: a matter of room alone.
        let _ = unsafe { madvise(at.cast(), range.len(), Advice::LinuxDontNeed) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, whole; who owns the region answers for what referred to it.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
