//! SIMD search over bytes behind a safe face, [memory](Ring) that is written past the caches, and
//! hints of what is [read soon](prefetch).
//!
//! The idea: every search here is "which of the next 64 bytes are interesting?", answered as a
//! 64-bit mask, and a walk over the mask's bits. [`Simd`] is the few operations that make such
//! masks; each instruction set has one small type for it in its own file. An algorithm is a
//! [`Task`], written once over [`Simd`] and compiled once per instruction set; [`Level::run`] picks
//! the copy for this CPU.
//!
//! A [`Level`] other than portable can only be made on a CPU that has it, and a `Simd` value only
//! inside [`Level::run`], so having the value proves the feature. That is the whole safety argument
//! of this module: the intrinsics are reachable only through such a value.
//!
//! The environment variable `RHYTHM_SIMD` (portable, sse2, avx2, avx512, neon) forces a level, so
//! that one machine tests and times every path that it has.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
mod find;
mod level;
mod portable;
mod prefetch;
mod set;
mod stream;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use find::block_at;
pub use find::{Separators, encoded, html_special, separators};
pub use level::{Level, LevelError};
pub use prefetch::{prefetch, prefetch_address, prefetch_at};
pub use set::{ALPHANUMERIC, ByteSet, DistinctSet};
pub use stream::Ring;

/// The operations of one instruction set, on blocks of 64 bytes. Bit i of a mask speaks of byte i.
///
/// Only this module makes values of it, and only on a CPU that has the instructions.
pub trait Simd: Copy + sealed::Sealed {
    /// 64 bytes in registers.
    type Block: Copy;

    /// The first 64 of `bytes`; where there are fewer, the rest reads as zero.
    fn load(self, bytes: &[u8]) -> Self::Block;

    /// The bytes equal to `byte`.
    fn eq(self, block: Self::Block, byte: u8) -> u64;

    /// The bytes in which two blocks differ.
    fn differ(self, one: Self::Block, other: Self::Block) -> u64;

    /// The bytes at most `byte`, compared without sign; `byte` must be below 0x7f.
    fn at_most(self, block: Self::Block, byte: u8) -> u64;

    /// The bytes from 0x80 up.
    fn non_ascii(self, block: Self::Block) -> u64;

    /// The bytes other than 0x20 to 0x7e.
    fn unprintable(self, block: Self::Block) -> u64;

    /// The bytes that are members of `set`.
    fn in_set(self, block: Self::Block, set: &ByteSet) -> u64;

    /// Which of these bytes are members of `set`. For short texts: half a block.
    #[inline(always)]
    fn in_distinct(self, bytes: &[u8; 32], set: &DistinctSet) -> u32 {
        let mut mask = 0;
        for (i, byte) in bytes.iter().enumerate() {
            mask |= u32::from(set.contains(*byte)) << i;
        }
        mask
    }

    /// Where the run of members of `set` that starts at `start` ends: the first position in
    /// `start..end` whose byte is not a member, or `end`. `end` must not be past the end of
    /// `bytes`.
    #[inline(always)]
    fn run_end(self, bytes: &[u8], start: usize, end: usize, set: &ByteSet) -> usize {
        let mut at = start;
        while at < end {
            // Loading past `end` where there are bytes spares the slower load of a short tail.
            let others = !self.in_set(self.load(&bytes[at..]), set);
            if others != 0 {
                return (at + others.trailing_zeros() as usize).min(end);
            }
            at += 64;
        }
        end
    }
}

/// `bytes`, which are fewer than a block, padded with zeros to one.
#[inline(always)]
fn padded(bytes: &[u8]) -> [u8; 64] {
    let mut block = [0; 64];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}

/// [`Simd::run_end`] where there is no quick `in_set`.
#[inline(always)]
fn run_end_by_byte(bytes: &[u8], start: usize, end: usize, set: &ByteSet) -> usize {
    let run = bytes[start..end]
        .iter()
        .position(|byte| !set.contains(*byte));
    run.map_or(end, |run| start + run)
}

/// An algorithm over [`Simd`]. Mark `run` with `#[inline(always)]`, so that it is compiled into the
/// function that enables the instructions; without it the result is the same but slow.
pub trait Task {
    /// What it computes.
    type Output;

    /// Computes it with the instructions `s` stands for.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// The first position in `start..end` whose byte is `byte`, or `end`.
#[inline(always)]
pub fn find_byte<S: Simd>(s: S, bytes: &[u8], start: usize, end: usize, byte: u8) -> usize {
    let mut at = start;
    while at < end {
        let found = s.eq(s.load(&bytes[at..]), byte);
        if found != 0 {
            return (at + found.trailing_zeros() as usize).min(end);
        }
        at += 64;
    }
    end
}

mod sealed {
    /// Keeps [`super::Simd`] implementable in this module alone.
    pub trait Sealed {}
}

#[cfg(test)]
mod tests;
