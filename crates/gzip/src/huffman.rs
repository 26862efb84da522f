//! Huffman codes as deflate has them (RFC 1951, sections 3.2.2 and 3.2.7): made from counts, told
//! at the head of a block.

use crate::bits::{BitText, Bits};
use crate::length_limit::code_lengths;
use crate::symbols::{DISTANCES, END, LITERALS, MATCH_MAX, MATCH_MIN, of_distance, of_length};

/// The longest code of a literal, length or distance.
const CODE_MAX: usize = 15;
/// The longest code of a code's length.
const LENGTH_CODE_MAX: usize = 7;
/// The order in which the lengths of those are told.
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// How often each symbol occurs. None is 0, so that there is a code for whatever an answer has.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub(crate) literals: [u32; LITERALS],
    pub(crate) distances: [u32; DISTANCES],
}

/// The codes of one block.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    literals: [Bits; LITERALS],
    distances: [Bits; DISTANCES],
    /// Those of matches' lengths with their extra bits, from the shortest match on.
    lengths: Vec<Bits>,
}

impl Code {
    /// The shortest for these counts.
    pub(crate) fn new(counts: &Counts) -> Code {
        let literals = canonical(&code_lengths(&counts.literals, CODE_MAX));
        let distances = canonical(&code_lengths(&counts.distances, CODE_MAX));
        let mut code = Code {
            literals: [Bits::default(); LITERALS],
            distances: [Bits::default(); DISTANCES],
            lengths: Vec::with_capacity(MATCH_MAX - MATCH_MIN + 1),
        };
        code.literals.copy_from_slice(&literals);
        code.distances.copy_from_slice(&distances);
        for length in MATCH_MIN..=MATCH_MAX {
            let extra = of_length(length);
            let bits = code.literals[extra.symbol].then(extra.bits, extra.count);
            code.lengths.push(bits);
        }
        code
    }

    /// A byte that is no part of a match: 15 bits at most.
    #[inline(always)]
    pub(crate) fn literal(&self, byte: u8) -> Bits {
        self.literals[usize::from(byte)]
    }

    /// The end of a block.
    pub(crate) fn end(&self) -> Bits {
        self.literals[END]
    }

    /// A match's length: 20 bits at most.
    #[inline(always)]
    pub(crate) fn length(&self, length: usize) -> Bits {
        self.lengths[length - MATCH_MIN]
    }

    /// A match's distance, which follows its length: 28 bits at most.
    #[inline(always)]
    pub(crate) fn distance(&self, distance: u32) -> Bits {
        let extra = of_distance(distance);
        self.distances[extra.symbol].then(extra.bits, extra.count)
    }

    /// The head of a stream's only block, which tells the codes.
    pub(crate) fn head(&self) -> BitText {
        let lengths: Vec<u8> = (self.literals.iter().chain(&self.distances))
            .map(|bits| bits.count as u8)
            .collect();
        let told = tell(&lengths);
        let mut counts = [0; 19];
        for (symbol, ..) in &told {
            counts[usize::from(*symbol)] += 1;
        }
        if counts.iter().filter(|count| **count > 0).count() < 2 {
            // A code has two symbols.
            counts[0] += 1;
            counts[1] += 1;
        }
        let codes = canonical(&code_lengths(&counts, LENGTH_CODE_MAX));
        let used = |at: &usize| codes[ORDER[*at]].count > 0;
        let last = (0..19).rev().find(used).map_or(4, |at| 4.max(at + 1));
        let mut head = BitText::default();
        let mut put = |bits: u64, count| head.push(Bits { bits, count });
        // It is the last block, of dynamic codes.
        put(1, 1);
        put(2, 2);
        put(LITERALS as u64 - 257, 5);
        put(DISTANCES as u64 - 1, 5);
        put(last as u64 - 4, 4);
        for at in 0..last {
            put(u64::from(codes[ORDER[at]].count), 3);
        }
        for (symbol, extra, count) in told {
            let code = codes[usize::from(symbol)];
            put(code.bits, code.count);
            put(u64::from(extra), count);
        }
        head
    }
}

/// The canonical codes of these lengths, which is which as the standard says; reversed, since a
/// code's first bit is its most significant.
fn canonical(lengths: &[u8]) -> Vec<Bits> {
    let mut counts = [0_u32; CODE_MAX + 1];
    for length in lengths {
        counts[usize::from(*length)] += 1;
    }
    counts[0] = 0;
    let mut next = [0; CODE_MAX + 1];
    let mut code = 0;
    for length in 1..=CODE_MAX {
        code = (code + counts[length - 1]) << 1;
        next[length] = code;
    }
    let of = |length: &u8| {
        let count = u32::from(*length);
        if count == 0 {
            return Bits::default();
        }
        let code: &mut u32 = &mut next[usize::from(*length)];
        let bits = u64::from(code.reverse_bits() >> (32 - count));
        *code += 1;
        Bits { bits, count }
    };
    lengths.iter().map(of).collect()
}

/// Lengths of codes as symbols, extra bits and the number of these: equal ones next to each other
/// are told together.
fn tell(lengths: &[u8]) -> Vec<(u8, u8, u32)> {
    let mut told = Vec::new();
    for same in lengths.chunk_by(|a, b| a == b) {
        let (length, mut left) = (same[0], same.len());
        if length > 0 {
            told.push((length, 0, 0));
            left -= 1;
            while left >= 3 {
                let times = left.min(6);
                told.push((16, times as u8 - 3, 2));
                left -= times;
            }
        } else {
            while left >= 3 {
                let times = left.min(138);
                match times {
                    3..=10 => told.push((17, times as u8 - 3, 3)),
                    _ => told.push((18, times as u8 - 11, 7)),
                }
                left -= times;
            }
        }
        told.extend(std::iter::repeat_n((length, 0, 0), left));
    }
    told
}
