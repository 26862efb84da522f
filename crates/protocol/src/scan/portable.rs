//! The operations on eight 64-bit words at a time, for any CPU: each byte's answer is computed in
//! its top bit without carries between bytes, then the eight top bits are gathered by one
//! multiplication.

use super::{ByteSet, Simd, padded, sealed};

const LOW_7: u64 = 0x7f7f_7f7f_7f7f_7f7f;
const TOP: u64 = 0x8080_8080_8080_8080;

/// Plain 64-bit arithmetic.
#[derive(Clone, Copy)]
pub(super) struct Portable;

/// `byte` in every byte.
#[inline(always)]
const fn splat(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// A mask bit for each byte whose top bit `tops` sets.
#[inline(always)]
fn gather(block: &[u64; 8], tops: impl Fn(u64) -> u64) -> u64 {
    let mut mask = 0;
    for (i, word) in block.iter().enumerate() {
        let bits = (tops(*word) & TOP).wrapping_mul(0x0002_0408_1020_4081) >> 56;
        mask |= bits << (8 * i);
    }
    mask
}

impl sealed::Sealed for Portable {}

impl Simd for Portable {
    type Block = [u64; 8];

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> [u64; 8] {
        let block = bytes.first_chunk().copied();
        let block = block.unwrap_or_else(|| padded(bytes));
        let mut words = [0; 8];
        for (word, chunk) in words.iter_mut().zip(block.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        words
    }

    #[inline(always)]
    fn eq(self, block: [u64; 8], byte: u8) -> u64 {
        let wanted = splat(byte);
        gather(&block, |word| {
            let x = word ^ wanted;
            // The sum carries into the top bit unless the low seven bits are zero.
            !(((x & LOW_7) + LOW_7) | x)
        })
    }

    #[inline(always)]
    fn differ(self, one: [u64; 8], other: [u64; 8]) -> u64 {
        let apart = core::array::from_fn(|i| one[i] ^ other[i]);
        !self.eq(apart, 0)
    }

    #[inline(always)]
    fn at_most(self, block: [u64; 8], byte: u8) -> u64 {
        let room = splat(0x7f - byte);
        gather(&block, |word| !(((word & LOW_7) + room) | word))
    }

    #[inline(always)]
    fn non_ascii(self, block: [u64; 8]) -> u64 {
        gather(&block, |word| word)
    }

    #[inline(always)]
    fn unprintable(self, block: [u64; 8]) -> u64 {
        self.at_most(block, 0x1f) | self.eq(block, 0x7f) | self.non_ascii(block)
    }

    #[inline(always)]
    fn in_set(self, block: [u64; 8], set: &ByteSet) -> u64 {
        let mut mask = 0;
        for (i, word) in block.iter().enumerate() {
            for (j, byte) in word.to_le_bytes().into_iter().enumerate() {
                mask |= u64::from(set.contains(byte)) << (8 * i + j);
            }
        }
        mask
    }
    #[inline(always)]
    fn run_end(self, bytes: &[u8], start: usize, end: usize, set: &ByteSet) -> usize {
        super::run_end_by_byte(bytes, start, end, set)
    }
}
