//! The checksum of a text that follows another one, from those of both (CRC-32 of RFC 1952,
//! section 8): what the first one's becomes by so many bytes behind it is linear in its bits.

/// The polynomial, its highest power of x the least significant bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// What so many bytes behind a text make of its checksum, but for what they are.
#[derive(Clone, Debug)]
pub(crate) struct Shift {
    /// By each four bits of the checksum.
    by_nibble: Box<[[u32; 16]; 8]>,
}

impl Shift {
    /// That of so many bytes.
    pub(crate) fn by(bytes: usize) -> Shift {
        let factor = power_of_x(8 * bytes as u64);
        let mut by_nibble = Box::new([[0; 16]; 8]);
        for (place, table) in by_nibble.iter_mut().enumerate() {
            for (nibble, value) in (0..).zip(table.iter_mut()) {
                let bits: u32 = nibble;
                *value = product(bits << (4 * place), factor);
            }
        }
        Shift { by_nibble }
    }

    /// The checksum of a text with this one, and behind it one with that of `behind`.
    #[inline]
    pub(crate) fn join(&self, before: u32, behind: u32) -> u32 {
        let mut joined = behind;
        for (place, table) in self.by_nibble.iter().enumerate() {
            joined ^= table[(before >> (4 * place) & 15) as usize];
        }
        joined
    }
}

/// The product of two polynomials, modulo that of the checksum.
fn product(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for power in 0..32 {
        if a & (1 << (31 - power)) != 0 {
            product ^= b;
        }
        b = if b & 1 == 1 {
            b >> 1 ^ POLYNOMIAL
        } else {
            b >> 1
        };
    }
    product
}

/// This power of x.
fn power_of_x(mut exponent: u64) -> u32 {
    let (mut power, mut square) = (1 << 31, 1 << 30);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = product(power, square);
        }
        square = product(square, square);
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_that_of_both_texts(a: Vec<u8>, b: Vec<u8>) {
            let joined = Shift::by(b.len()).join(crc32fast::hash(&a), crc32fast::hash(&b));
            prop_assert_eq!(joined, crc32fast::hash(&[a, b].concat()));
        }
    }
}
