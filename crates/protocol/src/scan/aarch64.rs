//! The operations with NEON, which every AArch64 CPU has.
//!
//! A mask is gathered by three rounds of adding neighbors, of bytes of which each has its own bit.
//! Membership in a set is one table look-up and one shift: the low nibble selects the byte that
//! says which high nibbles are members, the high nibble shifts a one to its bit, and a byte is a
//! member where the two meet. From 0x80 up the one is shifted out.

use super::{ByteSet, DistinctSet, Simd, padded, sealed};
use core::arch::aarch64::*;

/// NEON: every AArch64 CPU.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

/// Each byte's bit in the byte of the mask that it belongs to.
const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

impl sealed::Sealed for Neon {}

impl Neon {
    /// The proof that the CPU has NEON.
    pub(super) const fn new() -> Neon {
        Neon(())
    }

    /// A block's mask from what each of its four registers has: 0 or 0xff in each byte.
    #[inline(always)]
    fn mask(block: [uint8x16_t; 4], test: impl Fn(uint8x16_t) -> uint8x16_t) -> u64 {
        let [a, b, c, d] = block.map(test);
        // SAFETY: NEON is part of AArch64; `BITS` is 16 readable bytes.
        unsafe {
            let bits = vld1q_u8(BITS.as_ptr());
            let low = vpaddq_u8(vandq_u8(a, bits), vandq_u8(b, bits));
            let high = vpaddq_u8(vandq_u8(c, bits), vandq_u8(d, bits));
            let both = vpaddq_u8(low, high);
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(both, both)))
        }
    }

    /// 0xff for each member of the set whose table is `members`.
    #[inline(always)]
    fn found(x: uint8x16_t, members: uint8x16_t) -> uint8x16_t {
        // SAFETY: NEON is part of AArch64.
        unsafe {
            let low = vandq_u8(x, vdupq_n_u8(15));
            let high = vreinterpretq_s8_u8(vshrq_n_u8::<4>(x));
            vtstq_u8(vqtbl1q_u8(members, low), vshlq_u8(vdupq_n_u8(1), high))
        }
    }
}

/// 16 bytes in a register.
#[inline(always)]
fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: NEON is part of AArch64; these are 16 readable bytes.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

impl Simd for Neon {
    type Block = [uint8x16_t; 4];

    #[inline(always)]
    fn load(self, bytes: &[u8]) -> [uint8x16_t; 4] {
        let short;
        let from: &[u8; 64] = match bytes.first_chunk() {
            Some(block) => block,
            None => {
                short = padded(bytes);
                &short
            }
        };
        let (parts, _) = from.as_chunks::<16>();
        core::array::from_fn(|i| load(&parts[i]))
    }

    #[inline(always)]
    fn eq(self, block: [uint8x16_t; 4], byte: u8) -> u64 {
        // SAFETY: NEON is part of AArch64.
        Neon::mask(block, |x| unsafe { vceqq_u8(x, vdupq_n_u8(byte)) })
    }

    #[inline(always)]
    fn differ(self, one: [uint8x16_t; 4], other: [uint8x16_t; 4]) -> u64 {
        // SAFETY: NEON is part of AArch64.
        let equal = core::array::from_fn(|i| unsafe { vceqq_u8(one[i], other[i]) });
        !Neon::mask(equal, |x| x)
    }

    #[inline(always)]
    fn at_most(self, block: [uint8x16_t; 4], byte: u8) -> u64 {
        // SAFETY: NEON is part of AArch64.
        Neon::mask(block, |x| unsafe { vcleq_u8(x, vdupq_n_u8(byte)) })
    }

    #[inline(always)]
    fn non_ascii(self, block: [uint8x16_t; 4]) -> u64 {
        // SAFETY: NEON is part of AArch64.
        Neon::mask(block, |x| unsafe { vcgeq_u8(x, vdupq_n_u8(0x80)) })
    }

    #[inline(always)]
    fn unprintable(self, block: [uint8x16_t; 4]) -> u64 {
        // SAFETY: NEON is part of AArch64.
        Neon::mask(block, |x| unsafe {
            // 0x20 down, 0x20 to 0x7e are the lowest.
            vcgtq_u8(vsubq_u8(x, vdupq_n_u8(0x20)), vdupq_n_u8(0x5e))
        })
    }

    #[inline(always)]
    fn in_set(self, block: [uint8x16_t; 4], set: &ByteSet) -> u64 {
        let members = load(&set.by_low_nibble);
        Neon::mask(block, |x| Neon::found(x, members))
    }

    #[inline(always)]
    fn in_distinct(self, bytes: &[u8; 32], set: &DistinctSet) -> u32 {
        let members = load(&set.by_low_nibble);
        let (parts, _) = bytes.as_chunks::<16>();
        // SAFETY: NEON is part of AArch64.
        unsafe {
            let member = |part| {
                let x = load(part);
                vceqq_u8(vqtbl1q_u8(members, vandq_u8(x, vdupq_n_u8(15))), x)
            };
            let none = vdupq_n_u8(0);
            Neon::mask([member(&parts[0]), member(&parts[1]), none, none], |x| x) as u32
        }
    }

    /// 16 bytes at a time, since most runs are short, and four bits of the mask for each of them:
    /// that takes one instruction.
    #[inline(always)]
    fn run_end(self, bytes: &[u8], start: usize, end: usize, set: &ByteSet) -> usize {
        let members = load(&set.by_low_nibble);
        let mut at = start;
        while at < end {
            // Near the end of `bytes` the last 16 are loaded, and what lies before `at` shifted
            // out.
            let (chunk, skip) = if let Some(chunk) = bytes[at..].first_chunk::<16>() {
                (chunk, 0)
            } else if let Some(chunk) = bytes.last_chunk::<16>() {
                (chunk, at + 16 - bytes.len())
            } else {
                return super::run_end_by_byte(bytes, at, end, set);
            };
            // SAFETY: NEON is part of AArch64.
            let others = unsafe {
                let others = vmvnq_u8(Neon::found(load(chunk), members));
                let halved = vshrn_n_u16::<4>(vreinterpretq_u16_u8(others));
                vget_lane_u64::<0>(vreinterpret_u64_u8(halved)) >> (4 * skip)
            };
            if others != 0 {
                return (at + others.trailing_zeros() as usize / 4).min(end);
            }
            at += 16;
        }
        end
    }
}
