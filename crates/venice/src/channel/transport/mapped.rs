//! Memory that two processes share: numbers that both use as atomics, and bytes that are copied in
//! and out. Nothing of it is ever borrowed, since the other process may write to it at any time.
#![allow(unsafe_code)]

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes from one number to the next, so that no two lie in one cache line.
const WORD_STRIDE: usize = 64;
/// Numbers of a mapping.
const WORDS: usize = 64;
/// Where its bytes begin.
const BYTES_AT: usize = WORD_STRIDE * WORDS;

/// A mapping of a file in memory whose size nobody can change any more.
#[derive(Debug)]
pub(super) struct Mapped {
    start: NonNull<c_void>,
    /// Of the bytes behind the numbers.
    bytes: usize,
}

// SAFETY: all access is by atomics or raw copies, and another process does both anyway; the
// mapping itself goes with the value.
unsafe impl Send for Mapped {}

impl Mapped {
    /// New memory for so many bytes, and what the other process maps it by.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn create(bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("venice-ring", flags)?;
        ftruncate(&file, (BYTES_AT + bytes) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&file, bytes)?, file))
    }

    /// What another process made.
    ///
    /// # Errors
    /// It is not what [`create`](Self::create) makes, or what the kernel says.
    pub(super) fn open(file: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let seals = fcntl_get_seals(file)?;
        let size = fstat(file)?.st_size;
        // Otherwise whoever made it could cut it, and this process would get SIGBUS.
        if !seals.contains(SealFlags::SHRINK) || size != (BYTES_AT + bytes) as i64 {
            return Err(io::Error::other("the shared memory is not of this version"));
        }
        Self::map(file, bytes)
    }

    fn map(file: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let length = BYTES_AT + bytes;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// A number, by its place below [`WORDS`].
    pub(super) fn word(&self, place: usize) -> &AtomicU64 {
        assert!(place < WORDS);
        // SAFETY: the address is within the mapping, which has BYTES_AT bytes for numbers, and is
        // aligned, as the mapping and the stride are; it is used as an atomic by both processes,
        // and any bytes are a number. The mapping lives as long as `self`.
        unsafe {
            let word = self.start.as_ptr().byte_add(place * WORD_STRIDE);
            AtomicU64::from_ptr(word.cast())
        }
    }

    /// Copies bytes to a place; all of them have to be within.
    pub(super) fn copy_in(&mut self, at: usize, from: &[u8]) {
        assert!(at <= self.bytes && from.len() <= self.bytes - at);
        // SAFETY: the range is within the mapping, by the line above; nothing in this process
        // borrows it, and what the other process does meanwhile changes bytes only, which it may.
        unsafe {
            let to = self.start.as_ptr().byte_add(BYTES_AT + at).cast::<u8>();
            to.copy_from_nonoverlapping(from.as_ptr(), from.len());
        }
    }

    /// Copies bytes from a place; all of them have to be within.
    pub(super) fn copy_out(&self, at: usize, to: &mut [u8]) {
        assert!(at <= self.bytes && to.len() <= self.bytes - at);
        // SAFETY: as above. Bytes that the other process writes meanwhile may come as either;
        // whoever reads them checks them after this copy, never before.
        unsafe {
            let from = self.start.as_ptr().byte_add(BYTES_AT + at).cast::<u8>();
            from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len());
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this mapping is the value's own, of this length, and not used after.
        let _ = unsafe { munmap(self.start.as_ptr(), BYTES_AT + self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_are_the_same_memory() {
        let (mut one, file) = Mapped::create(4096).unwrap();
        let other = Mapped::open(&file, 4096).unwrap();
        one.copy_in(4093, b"abc");
        one.word(3).store(7, Ordering::Release);
        let mut bytes = [0; 4];
        other.copy_out(4092, &mut bytes);
        assert_eq!(&bytes, b"\0abc");
        assert_eq!(other.word(3).load(Ordering::Acquire), 7);
        assert!(ftruncate(&file, 0).is_err(), "it cannot be cut");
        assert!(Mapped::open(&file, 8192).is_err(), "of another size");
        let flags = MemfdFlags::CLOEXEC;
        let open = rustix::fs::memfd_create("unsealed", flags).unwrap();
        ftruncate(&open, (BYTES_AT + 4096) as u64).unwrap();
        assert!(Mapped::open(&open, 4096).is_err(), "it could be cut");
    }
}
