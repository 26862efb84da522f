//! The alphabets of deflate (RFC 1951, section 3.2.5): lengths and distances of matches as symbols
//! and extra bits.

/// The shortest and the longest match.
pub(crate) const MATCH_MIN: usize = 3;
pub(crate) const MATCH_MAX: usize = 258;
/// Bits of a match at most: two codes, and what stands behind each.
pub(crate) const MATCH_BITS_MAX: usize = 15 + 5 + 15 + 13;
/// The farthest.
pub(crate) const DISTANCE_MAX: u32 = 32_768;
/// The symbol that ends a block.
pub(crate) const END: usize = 256;
/// Literals, the end, and lengths.
pub(crate) const LITERALS: usize = 286;
pub(crate) const DISTANCES: usize = 30;

/// A symbol with the extra bits that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) symbol: usize,
    pub(crate) bits: u32,
    pub(crate) count: u32,
}

/// That of a match's length, 3 to 258.
pub(crate) fn of_length(length: usize) -> Extra {
    debug_assert!((MATCH_MIN..=MATCH_MAX).contains(&length));
    if length == MATCH_MAX {
        // It has a symbol of its own.
        return extra(285, 0, 0);
    }
    let rest = (length - MATCH_MIN) as u32;
    if rest < 8 {
        return extra(257 + rest as usize, 0, 0);
    }
    // From here on four symbols share each number of extra bits.
    let count = rest.ilog2() - 2;
    let symbol = 257 + 4 * count as usize + (rest >> count) as usize;
    extra(symbol, rest & ((1 << count) - 1), count)
}

/// That of a match's distance, 1 to 32768.
#[inline]
pub(crate) fn of_distance(distance: u32) -> Extra {
    debug_assert!((1..=DISTANCE_MAX).contains(&distance));
    let rest = distance - 1;
    if rest < 4 {
        return extra(rest as usize, 0, 0);
    }
    // Two symbols share each number of extra bits.
    let count = rest.ilog2() - 1;
    let symbol = 2 * count as usize + (rest >> count) as usize;
    extra(symbol, rest & ((1 << count) - 1), count)
}

#[inline]
fn extra(symbol: usize, bits: u32, count: u32) -> Extra {
    Extra {
        symbol,
        bits,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_standard() {
        // RFC 1951, section 3.2.5: the first length of each symbol, and its extra bits.
        let table = [
            (3, 257, 0),
            (10, 264, 0),
            (11, 265, 1),
            (19, 269, 2),
            (35, 273, 3),
            (67, 277, 4),
            (131, 281, 5),
            (227, 284, 5),
            (258, 285, 0),
        ];
        for (length, symbol, count) in table {
            assert_eq!(of_length(length), extra(symbol, 0, count), "{length}");
        }
        assert_eq!(of_length(257), extra(284, 30, 5));
        assert_eq!(of_length(34), extra(272, 3, 2));
    }

    #[test]
    fn distances_are_those_of_the_standard() {
        let table = [
            (1, 0, 0),
            (4, 3, 0),
            (5, 4, 1),
            (7, 5, 1),
            (9, 6, 2),
            (257, 16, 7),
            (24_577, 29, 13),
        ];
        for (distance, symbol, count) in table {
            assert_eq!(of_distance(distance), extra(symbol, 0, count), "{distance}");
        }
        assert_eq!(of_distance(32_768), extra(29, 8191, 13));
        assert_eq!(of_distance(6), extra(4, 1, 1));
    }
}
