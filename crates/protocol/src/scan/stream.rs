//! Writing past the caches: for bytes that nobody here will read again.
//!
//! An ordinary store first fetches the line it writes to, and pushes another one out of the caches.
//! A streaming store writes a whole line straight to memory: half the traffic, and what the next
//! piece of work needs stays where it is.
//!
//! Streamed bytes become visible to other cores in any order until a fence, which waits for all of
//! them. So a [`Ring`] stays with the thread that writes it, and has a fence only where it is read.

use core::marker::PhantomData;
use core::ops::Deref;

/// A line of the caches, where one begins in memory.
#[derive(Clone)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Line {
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn stream(&mut self, bytes: &[u8; 64]) {
        use core::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
        let (to, from) = (self.0.as_chunks_mut::<16>().0, bytes.as_chunks::<16>().0);
        for (to, from) in to.iter_mut().zip(from) {
            let (to, from) = (to.as_mut_ptr().cast(), from.as_ptr().cast());
            // SAFETY: SSE2 is part of x86-64. Both are 16 bytes; `to` is a quarter of a line and
            // aligned as one. No other thread gets at it before a fence, see `Ring`.
            unsafe { _mm_stream_si128(to, _mm_loadu_si128(from)) };
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn stream(&mut self, bytes: &[u8; 64]) {
        self.0 = *bytes;
    }
}

/// Memory that is written round and round, too large for the caches: where an emulation puts what a
/// server would send.
pub struct Ring {
    lines: Box<[Line]>,
    /// Where the next write begins, in bytes.
    at: usize,
    /// Keeps it on its thread: what was streamed may not be visible to another.
    thread: PhantomData<*mut ()>,
}

impl Ring {
    /// A ring of so many bytes, rounded up to lines.
    #[must_use]
    pub fn new(bytes: usize) -> Ring {
        Ring {
            // Not zeros, so that the memory is there before anything is measured.
            lines: vec![Line([1; 64]); bytes.div_ceil(64)].into(),
            at: 0,
            thread: PhantomData,
        }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len() * 64
    }

    /// Whether nothing fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Writes bytes past the caches, from the next line on, and whole lines only. What is longer
    /// than the ring is not written.
    #[inline]
    pub fn stream(&mut self, bytes: &[u8]) {
        self.stream_parts(&[bytes]);
    }

    /// As [`Ring::stream`], for bytes that lie in several places: they are written one behind the
    /// other.
    #[inline]
    pub fn stream_parts<B: Deref<Target = [u8]>>(&mut self, parts: &[B]) {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let count = length.div_ceil(64);
        let mut start = self.at.div_ceil(64);
        if self.lines.len().saturating_sub(start) < count {
            start = 0;
        }
        let Some(lines) = self.lines.get_mut(start..start + count) else {
            return;
        };
        self.at = 64 * (start + count);
        let mut lines = lines.iter_mut();
        // The line that a part ended in.
        let (mut begun, mut filled) = ([0; 64], 0);
        for part in parts {
            let mut rest = &**part;
            if filled > 0 {
                let (first, others) = rest.split_at(rest.len().min(64 - filled));
                begun[filled..][..first.len()].copy_from_slice(first);
                (filled, rest) = (filled + first.len(), others);
                if filled < 64 {
                    continue;
                }
                if let Some(line) = lines.next() {
                    line.stream(&begun);
                }
            }
            let (whole, last) = rest.as_chunks();
            for (line, bytes) in lines.by_ref().take(whole.len()).zip(whole) {
                line.stream(bytes);
            }
            begun[..last.len()].copy_from_slice(last);
            filled = last.len();
        }
        if filled > 0
            && let Some(line) = lines.next()
        {
            begun[filled..].fill(0);
            line.stream(&begun);
        }
    }

    /// Writes bytes with `memcpy`, right behind the last. What is longer than the ring is not
    /// written.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8]) {
        if self.len() - self.at < bytes.len() {
            self.at = 0;
        }
        let at = self.at;
        // SAFETY: a line is 64 bytes and nothing else.
        let all = unsafe { self.lines.align_to_mut::<u8>() }.1;
        if let Some(room) = all.get_mut(at..at + bytes.len()) {
            room.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    /// All of it, from its first line on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: SSE is part of x86-64.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::x86_64::_mm_sfence();
        }
        // SAFETY: a line is 64 bytes and nothing else.
        unsafe { self.lines.align_to::<u8>() }.1
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Whoever gets the memory next may be another thread.
        let _ = self.bytes();
    }
}
