//! Memory of a loan: a mapping of its own, so that what is freed goes back to the kernel.
#![allow(unsafe_code)]

use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

const PAGE: usize = 4096;

/// Zeroed memory that takes room only where it was written.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
    /// A bit a page: it was written since it was last dropped.
    written: Vec<u64>,
    pages_written: usize,
}

// SAFETY: the mapping belongs to this value alone; it is reached through `&self` and `&mut self`
// only, so another thread may have it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `bytes` of zeros.
    ///
    /// # Errors
    /// What the kernel says of so many addresses.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe { mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
        Ok(Self {
            start: NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?,
            bytes,
            written: vec![0; bytes.div_ceil(PAGE * 64)],
            pages_written: 0,
        })
    }

    /// The bytes at `offset`; none where they are not all within.
    pub(super) fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let range = self.range(offset, length as u64)?;
        // SAFETY: the mapping is readable, has `bytes` initialized bytes (zeros at first), lives
        // as long as `self`, and nobody writes to it while `self` is borrowed.
        let all = unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes) };
        Some(&all[range])
    }

    /// Puts bytes to `offset`; false where they would not all be within.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let Some(range) = self.range(offset, bytes.len() as u64) else {
            return false;
        };
        if bytes.is_empty() {
            return true;
        }
        for page in range.start / PAGE..=(range.end - 1) / PAGE {
            let bit = 1 << (page % 64);
            self.pages_written += usize::from(self.written[page / 64] & bit == 0);
            self.written[page / 64] |= bit;
        }
        // SAFETY: as in `get`, and `&mut self` has nobody else use it.
        let all = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes) };
        all[range].copy_from_slice(bytes);
        true
    }

    /// Has whole pages read as zeros, their memory the kernel's; false where they are not all
    /// within, or no whole pages.
    pub(super) fn free(&mut self, offset: u64, length: u64) -> bool {
        let Some(range) = self.range(offset, length) else {
            return false;
        };
        if !range.start.is_multiple_of(PAGE) || !range.end.is_multiple_of(PAGE) {
            return false;
        }
        for page in range.start / PAGE..range.end / PAGE {
            let bit = 1 << (page % 64);
            self.pages_written -= usize::from(self.written[page / 64] & bit != 0);
            self.written[page / 64] &= !bit;
        }
        // SAFETY: the range lies within the mapping, which no borrow is on; private anonymous
        // pages that are dropped read as zeros, which are bytes as good as any.
        let dropped = unsafe {
            let start = self.start.as_ptr().byte_add(range.start);
            mm::madvise(start, range.len(), Advice::LinuxDontNeed)
        };
        dropped.is_ok()
    }

    /// Bytes of pages that were written.
    pub(super) fn used(&self) -> u64 {
        (self.pages_written * PAGE) as u64
    }

    fn range(&self, offset: u64, length: u64) -> Option<std::ops::Range<usize>> {
        let end = offset.checked_add(length)?;
        (end <= self.bytes as u64).then_some(offset as usize..end as usize)
    }
}

impl Drop for Mapping {
    /// Zeroes what was written before the kernel has it again.
    fn drop(&mut self) {
        // SAFETY: as in `put`; the mapping is unmapped once, here, and not used after.
        unsafe {
            let start = self.start.as_ptr();
            for page in 0..self.bytes.div_ceil(PAGE) {
                if self.written[page / 64] & 1 << (page % 64) != 0 {
                    let bytes = PAGE.min(self.bytes - page * PAGE);
                    std::ptr::write_bytes(start.cast::<u8>().add(page * PAGE), 0, bytes);
                }
            }
            let _ = mm::munmap(start, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_there_until_it_is_freed() {
        let mut mapping = Mapping::new(4 * PAGE).unwrap();
        assert!(mapping.put(PAGE as u64 - 1, b"abc"));
        assert_eq!(mapping.used(), 2 * PAGE as u64);
        assert_eq!(mapping.get(PAGE as u64 - 2, 5), Some(&b"\0abc\0"[..]));
        assert!(mapping.free(PAGE as u64, PAGE as u64));
        assert_eq!(mapping.used(), PAGE as u64);
        assert_eq!(mapping.get(PAGE as u64 - 2, 5), Some(&b"\0a\0\0\0"[..]));
    }

    #[test]
    fn nothing_beyond_the_end_is_reached() {
        let mut mapping = Mapping::new(2 * PAGE).unwrap();
        assert!(mapping.get(2 * PAGE as u64, 1).is_none());
        assert!(mapping.get(u64::MAX, 2).is_none());
        assert!(!mapping.put(2 * PAGE as u64 - 1, b"ab"));
        assert!(!mapping.put(u64::MAX, b"ab"));
        assert!(!mapping.free(PAGE as u64, 2 * PAGE as u64));
        assert!(!mapping.free(1, PAGE as u64));
        assert!(mapping.put(2 * PAGE as u64, b""));
        assert_eq!(mapping.used(), 0);
    }
}
