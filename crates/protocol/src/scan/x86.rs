//! The operations with SSE2, AVX2 and AVX-512BW.
//!
//! Membership in a set is two table look-ups by shuffle: the low nibble selects the byte that says
//! which high nibbles are members, the high nibble selects that nibble's bit, and a byte is a
//! member where the two meet. Bytes from 0x80 up select zero. SSE2 has no such shuffle and looks
//! bytes up one at a time.

use super::{ByteSet, DistinctSet, Simd, padded, sealed};
use core::arch::x86_64::*;

/// SSE2: every x86-64 CPU.
#[derive(Clone, Copy)]
pub(super) struct Sse2(());

/// AVX2 with BMI1, BMI2 and POPCNT.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// AVX-512F and BW with BMI1, BMI2 and POPCNT.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Sse2 {
    /// The proof that the CPU has SSE2.
    pub(super) const fn new() -> Sse2 {
        Sse2(())
    }
}

impl Avx2 {
    /// The proof that the CPU has AVX2, BMI1, BMI2 and POPCNT.
    ///
    /// # Safety
    /// It must have them.
    #[inline(always)]
    pub(super) const unsafe fn new() -> Avx2 {
        Avx2(())
    }
}

impl Avx512 {
    /// The proof that the CPU has AVX-512F, AVX-512BW, BMI1, BMI2 and POPCNT.
    ///
    /// # Safety
    /// It must have them.
    #[inline(always)]
    pub(super) const unsafe fn new() -> Avx512 {
        Avx512(())
    }
}

/// For each high nibble its bit; none from 8 up.
const HIGH_BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0];

impl sealed::Sealed for Sse2 {}
impl sealed::Sealed for Avx2 {}
impl sealed::Sealed for Avx512 {}

impl Sse2 {
    /// A block's mask from the mask of each of its four registers.
    #[inline(always)]
    fn mask(block: [__m128i; 4], test: impl Fn(__m128i) -> __m128i) -> u64 {
        let mut mask = 0;
        for (i, part) in block.into_iter().enumerate() {
            // SAFETY: SSE2 is part of x86-64.
            let bits = unsafe { _mm_movemask_epi8(test(part)) };
            mask |= u64::from(bits as u32) << (16 * i);
        }
        mask
    }
}

impl Simd for Sse2 {
    type Block = [__m128i; 4];

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> [__m128i; 4] {
        let short;
        let from: &[u8; 64] = match bytes.first_chunk() {
            Some(block) => block,
            None => {
                short = padded(bytes);
                &short
            }
        };
        let (parts, _) = from.as_chunks::<16>();
        // SAFETY: SSE2 is part of x86-64; each part is 16 readable bytes and the load needs no
        // alignment.
        core::array::from_fn(|i| unsafe { _mm_loadu_si128(parts[i].as_ptr().cast()) })
    }

    #[inline(always)]
    fn eq(self, block: [__m128i; 4], byte: u8) -> u64 {
        // SAFETY: SSE2 is part of x86-64.
        Sse2::mask(block, |x| unsafe {
            _mm_cmpeq_epi8(x, _mm_set1_epi8(byte as i8))
        })
    }

    #[inline(always)]
    fn differ(self, one: [__m128i; 4], other: [__m128i; 4]) -> u64 {
        // SAFETY: SSE2 is part of x86-64.
        let apart = core::array::from_fn(|i| unsafe { _mm_xor_si128(one[i], other[i]) });
        !self.eq(apart, 0)
    }

    #[inline(always)]
    fn at_most(self, block: [__m128i; 4], byte: u8) -> u64 {
        // SAFETY: SSE2 is part of x86-64.
        Sse2::mask(block, |x| unsafe {
            _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(byte as i8)), x)
        })
    }

    #[inline(always)]
    fn non_ascii(self, block: [__m128i; 4]) -> u64 {
        Sse2::mask(block, |x| x)
    }

    #[inline(always)]
    fn unprintable(self, block: [__m128i; 4]) -> u64 {
        // SAFETY: SSE2 is part of x86-64.
        Sse2::mask(block, |x| unsafe {
            // One up, 0x7f becomes the lowest of all signed bytes.
            _mm_cmpgt_epi8(_mm_set1_epi8(0x21), _mm_add_epi8(x, _mm_set1_epi8(1)))
        })
    }

    #[inline(always)]
    fn in_set(self, block: [__m128i; 4], set: &ByteSet) -> u64 {
        let mut mask = 0;
        for (i, part) in block.into_iter().enumerate() {
            let mut bytes = [0u8; 16];
            // SAFETY: SSE2 is part of x86-64; `bytes` is 16 writable bytes and the store needs no
            // alignment.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), part) };
            for (j, byte) in bytes.into_iter().enumerate() {
                mask |= u64::from(set.contains(byte)) << (16 * i + j);
            }
        }
        mask
    }

    #[inline(always)]
    fn run_end(self, bytes: &[u8], start: usize, end: usize, set: &ByteSet) -> usize {
        super::run_end_by_byte(bytes, start, end, set)
    }
}

/// The top bits of both halves. Written out rather than with closures, which the compiler would not
/// inline into the function that enables AVX2.
#[inline(always)]
fn mask_avx2(_: Avx2, low: __m256i, high: __m256i) -> u64 {
    // SAFETY: the first argument proves AVX2.
    unsafe {
        u64::from(_mm256_movemask_epi8(low) as u32)
            | u64::from(_mm256_movemask_epi8(high) as u32) << 32
    }
}

/// 0xff for each byte that is not a member of the set whose table is `members`.
#[inline(always)]
fn others_avx2(_: Avx2, x: __m256i, members: __m256i, high: __m256i) -> __m256i {
    // SAFETY: the first argument proves AVX2.
    unsafe {
        let nibbles = _mm256_and_si256(_mm256_srli_epi16::<4>(x), _mm256_set1_epi8(15));
        // The first shuffle gives zero for bytes from 0x80 up.
        let found = _mm256_and_si256(
            _mm256_shuffle_epi8(members, x),
            _mm256_shuffle_epi8(high, nibbles),
        );
        _mm256_cmpeq_epi8(found, _mm256_setzero_si256())
    }
}

impl Simd for Avx2 {
    type Block = [__m256i; 2];

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> [__m256i; 2] {
        let short;
        let from: &[u8; 64] = match bytes.first_chunk() {
            Some(block) => block,
            None => {
                short = padded(bytes);
                &short
            }
        };
        // SAFETY: `self` proves AVX2; `from` is 64 readable bytes and the loads need no alignment.
        unsafe {
            [
                _mm256_loadu_si256(from.as_ptr().cast()),
                _mm256_loadu_si256(from.as_ptr().add(32).cast()),
            ]
        }
    }

    #[inline(always)]
    fn eq(self, [low, high]: [__m256i; 2], byte: u8) -> u64 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let byte = _mm256_set1_epi8(byte as i8);
            mask_avx2(
                self,
                _mm256_cmpeq_epi8(low, byte),
                _mm256_cmpeq_epi8(high, byte),
            )
        }
    }

    #[inline(always)]
    fn differ(self, one: [__m256i; 2], other: [__m256i; 2]) -> u64 {
        // SAFETY: `self` proves AVX2.
        let equal = unsafe {
            mask_avx2(
                self,
                _mm256_cmpeq_epi8(one[0], other[0]),
                _mm256_cmpeq_epi8(one[1], other[1]),
            )
        };
        !equal
    }

    #[inline(always)]
    fn at_most(self, [low, high]: [__m256i; 2], byte: u8) -> u64 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let byte = _mm256_set1_epi8(byte as i8);
            mask_avx2(
                self,
                _mm256_cmpeq_epi8(_mm256_min_epu8(low, byte), low),
                _mm256_cmpeq_epi8(_mm256_min_epu8(high, byte), high),
            )
        }
    }

    #[inline(always)]
    fn non_ascii(self, [low, high]: [__m256i; 2]) -> u64 {
        mask_avx2(self, low, high)
    }

    #[inline(always)]
    fn unprintable(self, [low, high]: [__m256i; 2]) -> u64 {
        // SAFETY: `self` proves AVX2.
        unsafe {
            // One up, 0x7f becomes the lowest of all signed bytes.
            let (one, least) = (_mm256_set1_epi8(1), _mm256_set1_epi8(0x21));
            mask_avx2(
                self,
                _mm256_cmpgt_epi8(least, _mm256_add_epi8(low, one)),
                _mm256_cmpgt_epi8(least, _mm256_add_epi8(high, one)),
            )
        }
    }

    #[inline(always)]
    fn in_set(self, [low, high]: [__m256i; 2], set: &ByteSet) -> u64 {
        // SAFETY: `self` proves AVX2; both tables are 16 readable bytes and the loads need no
        // alignment.
        unsafe {
            let members =
                _mm256_broadcastsi128_si256(_mm_loadu_si128(set.by_low_nibble.as_ptr().cast()));
            let bits = _mm256_broadcastsi128_si256(_mm_loadu_si128(HIGH_BITS.as_ptr().cast()));
            !mask_avx2(
                self,
                others_avx2(self, low, members, bits),
                others_avx2(self, high, members, bits),
            )
        }
    }

    #[inline(always)]
    fn in_distinct(self, bytes: &[u8; 32], set: &DistinctSet) -> u32 {
        // SAFETY: `self` proves AVX2; both are as many readable bytes as loaded, and the loads need
        // no alignment.
        unsafe {
            let members =
                _mm256_broadcastsi128_si256(_mm_loadu_si128(set.by_low_nibble.as_ptr().cast()));
            let x = _mm256_loadu_si256(bytes.as_ptr().cast());
            // The shuffle gives zero for bytes from 0x80 up.
            let member = _mm256_shuffle_epi8(members, x);
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(member, x)) as u32
        }
    }

    /// 32 bytes at a time, since most runs are shorter.
    #[inline(always)]
    fn run_end(self, bytes: &[u8], start: usize, end: usize, set: &ByteSet) -> usize {
        let mut at = start;
        while at < end {
            // Near the end of `bytes` the last 32 are loaded, and what lies before `at` shifted
            // out.
            let (chunk, skip) = if let Some(chunk) = bytes[at..].first_chunk::<32>() {
                (chunk, 0)
            } else if let Some(chunk) = bytes.last_chunk::<32>() {
                (chunk, at + 32 - bytes.len())
            } else {
                return super::run_end_by_byte(bytes, at, end, set);
            };
            // SAFETY: `self` proves AVX2; all are as many readable bytes as loaded, and the loads
            // need no alignment.
            let others = unsafe {
                let members =
                    _mm256_broadcastsi128_si256(_mm_loadu_si128(set.by_low_nibble.as_ptr().cast()));
                let bits = _mm256_broadcastsi128_si256(_mm_loadu_si128(HIGH_BITS.as_ptr().cast()));
                let x = _mm256_loadu_si256(chunk.as_ptr().cast());
                _mm256_movemask_epi8(others_avx2(self, x, members, bits)) as u32 >> skip
            };
            if others != 0 {
                return (at + others.trailing_zeros() as usize).min(end);
            }
            at += 32;
        }
        end
    }
}

impl Simd for Avx512 {
    type Block = __m512i;

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> __m512i {
        // SAFETY: `self` proves AVX-512BW; the second load reads only the bytes its mask names,
        // which are those of `bytes`; neither needs alignment.
        unsafe {
            if bytes.len() >= 64 {
                _mm512_loadu_si512(bytes.as_ptr().cast())
            } else {
                _mm512_maskz_loadu_epi8((1 << bytes.len()) - 1, bytes.as_ptr().cast())
            }
        }
    }

    #[inline(always)]
    fn eq(self, block: __m512i, byte: u8) -> u64 {
        // SAFETY: `self` proves AVX-512BW.
        unsafe { _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(byte as i8)) }
    }

    #[inline(always)]
    fn differ(self, one: __m512i, other: __m512i) -> u64 {
        // SAFETY: `self` proves AVX-512BW.
        unsafe { _mm512_cmpneq_epi8_mask(one, other) }
    }

    #[inline(always)]
    fn at_most(self, block: __m512i, byte: u8) -> u64 {
        // SAFETY: `self` proves AVX-512BW.
        unsafe { _mm512_cmple_epu8_mask(block, _mm512_set1_epi8(byte as i8)) }
    }

    #[inline(always)]
    fn non_ascii(self, block: __m512i) -> u64 {
        // SAFETY: `self` proves AVX-512BW.
        unsafe { _mm512_movepi8_mask(block) }
    }

    #[inline(always)]
    fn unprintable(self, block: __m512i) -> u64 {
        // SAFETY: `self` proves AVX-512BW.
        unsafe {
            // One up, 0x7f becomes the lowest of all signed bytes.
            let up = _mm512_add_epi8(block, _mm512_set1_epi8(1));
            _mm512_cmplt_epi8_mask(up, _mm512_set1_epi8(0x21))
        }
    }

    #[inline(always)]
    fn in_set(self, block: __m512i, set: &ByteSet) -> u64 {
        // SAFETY: `self` proves AVX-512BW; both tables are 16 readable bytes and the loads need no
        // alignment.
        unsafe {
            let low = _mm512_broadcast_i32x4(_mm_loadu_si128(set.by_low_nibble.as_ptr().cast()));
            let high = _mm512_broadcast_i32x4(_mm_loadu_si128(HIGH_BITS.as_ptr().cast()));
            // The shuffle gives zero for bytes from 0x80 up.
            let members = _mm512_shuffle_epi8(low, block);
            let nibbles = _mm512_and_si512(_mm512_srli_epi16::<4>(block), _mm512_set1_epi8(15));
            _mm512_test_epi8_mask(members, _mm512_shuffle_epi8(high, nibbles))
        }
    }
    #[inline(always)]
    fn in_distinct(self, bytes: &[u8; 32], set: &DistinctSet) -> u32 {
        // SAFETY: `self` proves AVX-512F, and no CPU has that without AVX2.
        unsafe { Avx2::new() }.in_distinct(bytes, set)
    }
}
