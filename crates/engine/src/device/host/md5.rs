//! MD5 (RFC 1321) of many short texts at once: the digests of a login cohort's passwords.
//!
//! Idea: a lane of a vector is a message. MD5 is a chain of 64 dependent steps that leaves a core
//! mostly waiting; sixteen independent chains fill it. The steps are written over `[u32; 16]`,
//! which the compiler turns into one 512-bit, two 256-bit or four 128-bit vectors according to the
//! instructions the function is compiled for. Texts of more than one block (55 bytes) are rare and
//! go one by one.

use md5::{Digest, Md5};
use rhythm_protocol::scan::{Level, Simd, Task};

/// Messages at once.
const WIDE: usize = 16;
/// The longest text that fits a block with its padding: 64 bytes less the 1-bit and the length.
const BLOCK_TEXT_MAX: usize = 55;

type Vector = [u32; WIDE];

/// Shifts, a row for each round of sixteen steps, repeating (RFC 1321, section 3.4).
const SHIFTS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// The first state (RFC 1321, section 3.3).
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// floor(2^32 * |sin(i + 1)|), the table T of RFC 1321, section 3.4.
static SINES: std::sync::LazyLock<[u32; 64]> = std::sync::LazyLock::new(|| {
    std::array::from_fn(|i| (((i + 1) as f64).sin().abs() * 2f64.powi(32)) as u32)
});

/// Writes the digests of `texts` to `digests`, in order, as lower-case hexadecimal digits.
pub(super) fn hex_digests<'a>(
    texts: impl Iterator<Item = &'a [u8]>,
    digests: &mut [[u8; 32]],
    level: Level,
) {
    let mut blocks = [[0u32; WIDE]; 16];
    let mut members = [0usize; WIDE];
    let mut count = 0;
    for (at, text) in texts.enumerate() {
        if text.len() > BLOCK_TEXT_MAX {
            digests[at] = hex(&Md5::digest(text).into());
            continue;
        }
        let mut block = [0; 64];
        block[..text.len()].copy_from_slice(text);
        block[text.len()] = 0x80;
        block[56..].copy_from_slice(&(text.len() as u64 * 8).to_le_bytes());
        for (word, bytes) in blocks.iter_mut().zip(block.as_chunks::<4>().0) {
            word[count] = u32::from_le_bytes(*bytes);
        }
        members[count] = at;
        count += 1;
        if count == WIDE {
            digest_blocks(&blocks, &members, digests, level);
            count = 0;
        }
    }
    if count > 0 {
        digest_blocks(&blocks, &members[..count], digests, level);
    }
}

/// Digests the first `members.len()` messages of `blocks`; message i is `digests[members[i]]`'s.
fn digest_blocks(blocks: &[Vector; 16], members: &[usize], digests: &mut [[u8; 32]], level: Level) {
    let state = level.run(Steps(blocks));
    for (i, &member) in members.iter().enumerate() {
        let mut digest = [0; 16];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(&state) {
            *bytes = word[i].to_le_bytes();
        }
        digests[member] = hex(&digest);
    }
}

/// [`steps`], compiled for each instruction set.
struct Steps<'a>(&'a [Vector; 16]);

impl Task for Steps<'_> {
    type Output = [Vector; 4];

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> [Vector; 4] {
        steps(self.0)
    }
}

/// The 64 steps on one block of each message.
#[inline(always)]
fn steps(blocks: &[Vector; 16]) -> [Vector; 4] {
    let sines = &*SINES;
    let [mut a, mut b, mut c, mut d] = START.map(|word| [word; WIDE]);
    for step in 0..64 {
        let round = step / 16;
        let word = match round {
            0 => step,
            1 => 5 * step + 1,
            2 => 3 * step + 5,
            _ => 7 * step,
        } % 16;
        let shift = SHIFTS[round][step % 4];
        let mut next = [0; WIDE];
        for i in 0..WIDE {
            let (x, y, z) = (b[i], c[i], d[i]);
            let mixed = match round {
                0 => (x & y) | (!x & z),
                1 => (x & z) | (y & !z),
                2 => x ^ y ^ z,
                _ => y ^ (x | !z),
            };
            let sum = a[i]
                .wrapping_add(mixed)
                .wrapping_add(blocks[word][i])
                .wrapping_add(sines[step]);
            next[i] = x.wrapping_add(sum.rotate_left(shift));
        }
        (a, d, c, b) = (d, c, b, next);
    }
    let mut state = [a, b, c, d];
    for (words, start) in state.iter_mut().zip(START) {
        for word in words {
            *word = word.wrapping_add(start);
        }
    }
    state
}

/// A digest in lower-case hexadecimal digits.
fn hex(digest: &[u8; 16]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(digest) {
        *pair = [
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_one_at_a_time_at_every_length_and_level() {
        let long: Vec<u8> = (0..130u8).collect();
        for count in [1, 15, 16, 17, 131] {
            let texts: Vec<&[u8]> = (0..count).map(|i| &long[..i % 131]).collect();
            for level in Level::all() {
                let mut digests = vec![[0; 32]; count];
                hex_digests(texts.iter().copied(), &mut digests, level);
                for (text, digest) in texts.iter().zip(&digests) {
                    assert_eq!(
                        *digest,
                        hex(&Md5::digest(text).into()),
                        "{level:?}, {} bytes",
                        text.len()
                    );
                }
            }
        }
    }
}
