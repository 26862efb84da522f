//! Memory from the system: zeroed, resident only where it was touched, in huge pages where the
//! system has them (random reads of a large store otherwise miss the TLB each time); or that of a
//! file, which stays when the process ends.
#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest page.
const PAGE: usize = 4096;
/// The usual huge page.
const HUGE_PAGE: usize = 2 << 20;

/// A range of memory of its own, or of a file, aligned to pages.
pub(super) struct Region {
    at: NonNull<u8>,
    bytes: usize,
    is_file: bool,
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
        Some(Region::mapped(NonNull::new(at.ok()?.cast())?, bytes, false))
    }

    /// That many bytes of a file from `offset` on, a multiple of a page: what is in them is in the
    /// file, whatever becomes of the process.
    ///
    /// The file has room for them, and they are this process's alone, which the file's lock tells
    /// others. One that writes to it regardless is beyond any help, as one that writes to this
    /// process's memory would be; and where it cuts the file, the system ends who uses what was
    /// there.
    pub(super) fn of_file(file: &File, offset: u64, bytes: usize) -> io::Result<Region> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (anywhere, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping where the system likes takes the place of nothing.
        let at = unsafe { mmap(anywhere, bytes, protection, flags, file, offset) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region::mapped(at, bytes, true))
    }

    /// A mapping that has just been made.
    fn mapped(at: NonNull<u8>, bytes: usize, is_file: bool) -> Region {
        // SAFETY: it is this mapping, and huge pages change nothing but its speed; so a refusal
        // may be ignored.
        let _ = unsafe { madvise(at.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        Region {
            at,
            bytes,
            is_file,
            populated: AtomicUsize::new(0),
        }
    }

    /// How large it is.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
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
        let before = self.populated();
        // The system wants the beginning of a page.
        let start = (range.start & !(PAGE - 1)).max(before);
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
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let is_noted = (self.populated).compare_exchange(before, done, order.0, order.1);
        // What was given back meanwhile may be needed again.
        Some(piece_end < end || is_noted.is_err())
    }

    /// How far it was made resident by [`populate`](Self::populate).
    pub(super) fn populated(&self) -> usize {
        self.populated.load(Ordering::Relaxed)
    }

    /// Gives back what was made resident from `start` on, the beginning of a page. What is made so
    /// at this moment may stay.
    ///
    /// # Safety
    /// As for [`release`](Self::release), of all from `start` on.
    pub(super) unsafe fn release_ahead(&self, start: usize) {
        let end = self.populated().min(self.bytes);
        if !self.is_file && start < end {
            self.populated.store(start, Ordering::Relaxed);
            // SAFETY: the same contract.
            unsafe { self.release(start..end) };
        }
    }

    /// Gives the pages of a range back to the system, after which anything may be read from them.
    /// A file keeps them: its room was taken at once, so that there is some for certain.
    ///
    /// # Safety
    /// Nothing in the range is referred to or used by any thread meanwhile.
    pub(super) unsafe fn release(&self, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.bytes);
        if self.is_file {
            return;
        }
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
