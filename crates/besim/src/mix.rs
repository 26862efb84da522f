//! Numbers that look random, made of a user id.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014): a counter with an odd step, and a mixing of its value
//! that is a bijection. A [`Stream`] starts at a place given by what the numbers are for and for
//! whom.

/// The step of the counter: 2^64 divided by the golden ratio, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes 64 bits, so that each bit of the result depends on every one of `z`. A bijection.
#[inline(always)]
#[must_use]
pub const fn mix64(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Mixes 32 bits. A bijection, so distinct inputs stay distinct.
#[inline(always)]
#[must_use]
pub(crate) const fn mix32(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// What numbers are for; streams of different purposes have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// How many accounts, bills and checks a user has.
    Counts = 1,
    /// The accounts' amounts.
    Accounts,
    /// The bills that are due.
    Bills,
    /// The payments that were made.
    Payments,
    /// A check; the item is its number.
    Check,
    /// The address.
    Profile,
    /// A confirmation; the item is the command.
    Confirmation,
}

/// A sequence of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Stream(u64);

impl Stream {
    /// The stream for a purpose, a user, and an item where the user has several.
    #[inline(always)]
    #[must_use]
    pub const fn new(purpose: Purpose, user: u32, item: u32) -> Stream {
        Stream(mix64((user as u64) << 32 | item as u64).wrapping_add(purpose as u64))
    }

    /// The same from 64 bits further on for each of `count`.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn skip(self, count: u32) -> Stream {
        Stream(self.0.wrapping_add(STEP.wrapping_mul(count as u64)))
    }

    /// The next 64 bits.
    #[inline(always)]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix64(self.0)
    }

    /// The next two numbers: below `first` and below `second`.
    #[inline(always)]
    pub const fn below(&mut self, first: u32, second: u32) -> (u32, u32) {
        let bits = self.bits();
        (
            scale(bits as u32, first),
            scale((bits >> 32) as u32, second),
        )
    }
}

/// A number below `n` from 32 bits: their share of 2^32, without a division.
#[inline(always)]
const fn scale(bits: u32, n: u32) -> u32 {
    ((bits as u64 * n as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_splitmix64() {
        // Published test vector for the seed 1234567.
        let mut stream = Stream(1_234_567);
        assert_eq!(stream.bits(), 6_457_827_717_110_365_317);
        assert_eq!(stream.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_are_below_their_bounds_and_reach_them() {
        let mut stream = Stream::new(Purpose::Check, 1, 2);
        let mut seen = [[false; 3]; 2];
        for _ in 0..200 {
            let (first, second) = stream.below(3, 2);
            seen[0][first as usize] = true;
            seen[1][second as usize] = true;
        }
        assert_eq!(seen, [[true; 3], [true, true, false]]);
    }
}
