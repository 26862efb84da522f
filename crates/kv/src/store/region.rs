//! Memory from the system: zeroed, resident only where it was touched, in huge pages where the
//! system has them (random reads of a large store otherwise miss the TLB each time).
#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest page.
const PAGE: usize = 4096;
/// The usual huge page.
const HUGE_PAGE: usize = 2 << 20;

/// A range of memory of its own, aligned to pages.
pub(super) struct Region {
    at: NonNull<u8>,
    bytes: usize,
    /// So many bytes were made resident by [`Region::populate`], or passed over.
    populated: AtomicUsize,
}

// SAFETY: a region is memory that nothing else knows of, and what it notes of it is atomic; who
// shares what lies in it is the business of those who use the pointer.
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
        Some(Region {
            at,
            bytes,
            populated: AtomicUsize::new(0),
        })
    }

    /// Where it begins. It lasts as long as the region.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.at
    }

    /// Makes pages of a range resident and leaves what is in them, whoever uses it meanwhile: those
    /// of one huge page, which may take a millisecond. True: there is more to be done. None where
    /// the system cannot. It is for one thread, whose ranges ascend: what was made resident once is
    /// not looked at again.
    pub(super) fn populate(&self, range: Range<usize>) -> Option<bool> {
        let end = range.end.min(self.bytes);
        // The system wants the beginning of a page.
        let start = range.start & !(PAGE - 1);
        let start = start.max(self.populated.load(Ordering::Relaxed));
        if start >= end {
            return Some(false);
        }
        let address = self.at.as_ptr().addr() + start;
        let behind = start + HUGE_PAGE - address % HUGE_PAGE;
        let piece_end = end.min(behind);
        // SAFETY: the range is inside the mapping.
        let at = unsafe { self.at.as_ptr().add(start) };
        // SAFETY: populating changes no byte, so it disturbs nobody who uses them.
        unsafe { madvise(at.cast(), piece_end - start, Advice::LinuxPopulateWrite) }.ok()?;
        // To the end of the page, lest it is asked for again with each byte that the range grows.
        let done = piece_end.next_multiple_of(PAGE);
        self.populated.store(done, Ordering::Relaxed);
        Some(piece_end < end)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_made_resident_page_by_page_and_once() {
        let region = Region::new(4 * HUGE_PAGE).expect("there is memory");
        let mut pieces = 0;
        while let Some(has_more) = region.populate(0..3 * HUGE_PAGE - 1) {
            pieces += 1;
            if !has_more {
                // The region may begin in the midst of a huge page.
                assert!((3..=4).contains(&pieces), "{pieces}");
                assert_eq!(region.populate(HUGE_PAGE..3 * HUGE_PAGE), Some(false));
                let done = region.populated.load(Ordering::Relaxed);
                assert_eq!(done, 3 * HUGE_PAGE);
                return;
            }
            assert!(pieces < 4, "it comes to an end");
        }
        // Where the system cannot, it says so at once.
        assert_eq!(pieces, 0);
    }
}
