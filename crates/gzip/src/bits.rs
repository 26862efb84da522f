//! Bits in the order of deflate: the least significant of a byte first (RFC 1951, section 3.1.1).

/// Bits that are ready to be put into a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    /// The first one is the least significant; those beyond `count` are 0.
    pub(crate) bits: u64,
    pub(crate) count: u32,
}

impl Bits {
    /// These, and others behind them: 64 together at most.
    pub(crate) fn then(self, bits: u32, count: u32) -> Bits {
        debug_assert!(self.count + count <= 64);
        Bits {
            bits: self.bits | (u64::from(bits) << self.count),
            count: self.count + count,
        }
    }
}

/// A text of bits, made beforehand.
#[derive(Clone, Debug, Default)]
pub(crate) struct BitText {
    words: Vec<u64>,
    /// Bits of all words together.
    count: usize,
}

impl BitText {
    /// Appends bits.
    pub(crate) fn push(&mut self, bits: Bits) {
        let at = self.count % 64;
        if at == 0 {
            self.words.push(bits.bits);
        } else {
            let last = self.words.len() - 1;
            self.words[last] |= bits.bits << at;
            if at + bits.count as usize > 64 {
                self.words.push(bits.bits >> (64 - at));
            }
        }
        self.count += bits.count as usize;
        self.words.truncate(self.count.div_ceil(64));
    }

    /// Its bits.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Appends its whole bytes, and gives the bits that are left.
    pub(crate) fn take_bytes(&mut self, bytes: &mut Vec<u8>) -> Bits {
        let all = self.words.iter().flat_map(|word| word.to_le_bytes());
        let whole = self.count / 8;
        let rest = all.clone().nth(whole).unwrap_or(0);
        bytes.extend(all.take(whole));
        Bits {
            bits: u64::from(rest),
            count: (self.count % 8) as u32,
        }
    }

    /// Gives memory back that was only there for it to grow.
    pub(crate) fn finish(mut self) -> BitText {
        self.words.shrink_to_fit();
        self
    }
}

/// Bits of a literal at most.
const LITERAL_MAX: u32 = 15;

/// Writes bits behind each other into a buffer that has room for them.
///
/// What is written in one go is 56 bits at most: up to seven wait for their byte to be full, behind
/// literals and matches up to 63.
#[derive(Debug)]
pub(crate) struct BitWriter<'b> {
    buffer: &'b mut [u8],
    /// Whole bytes that are written.
    at: usize,
    /// Bits that are not: fewer than 8 after [`BitWriter::flush`].
    waiting: u64,
    count: u32,
}

impl<'b> BitWriter<'b> {
    /// One that writes to `buffer` from `at` on. Eight bytes more than are needed have to be there.
    pub(crate) fn new(buffer: &'b mut [u8], at: usize, waiting: Bits) -> BitWriter<'b> {
        BitWriter {
            buffer,
            at,
            waiting: waiting.bits,
            count: waiting.count,
        }
    }

    /// Adds bits to those that wait. Together with these they may be 64 at most.
    #[inline(always)]
    pub(crate) fn add(&mut self, bits: u64, count: u32) {
        debug_assert!(self.count + count <= 64);
        self.waiting |= bits << self.count;
        self.count += count;
    }

    /// Adds the bits of a literal, of which a few wait together before their bytes are written.
    #[inline(always)]
    pub(crate) fn literal(&mut self, bits: Bits) {
        debug_assert!(bits.count <= LITERAL_MAX);
        if self.count > 64 - LITERAL_MAX {
            self.flush();
        }
        self.add(bits.bits, bits.count);
    }

    /// Writes the bytes that are full.
    #[inline(always)]
    pub(crate) fn flush(&mut self) {
        let to = &mut self.buffer[self.at..self.at + 8];
        to.copy_from_slice(&self.waiting.to_le_bytes());
        let full = self.count & !7;
        self.at += (full / 8) as usize;
        // A shift by all 64 is none.
        self.waiting = if full == 64 { 0 } else { self.waiting >> full };
        self.count &= 7;
    }

    /// Writes a text of bits.
    pub(crate) fn text(&mut self, text: &BitText) {
        self.flush();
        let (full, rest) = (text.count / 64, (text.count % 64) as u32);
        if self.count == 0 {
            for word in &text.words[..full] {
                self.buffer[self.at..self.at + 8].copy_from_slice(&word.to_le_bytes());
                self.at += 8;
            }
        } else {
            // As many bits as wait are carried from word to word.
            let (up, down) = (self.count, 64 - self.count);
            let to = &mut self.buffer[self.at..self.at + 8 * full];
            for (word, to) in text.words[..full].iter().zip(to.chunks_exact_mut(8)) {
                to.copy_from_slice(&(self.waiting | (word << up)).to_le_bytes());
                self.waiting = word >> down;
            }
            self.at += 8 * full;
        }
        if rest > 0 {
            let word = text.words[full];
            if rest > 32 {
                self.add(word & 0xffff_ffff, 32);
                self.flush();
                self.add(word >> 32, rest - 32);
            } else {
                self.add(word, rest);
            }
            self.flush();
        }
    }

    /// Where it stands: whole bytes, and the bits that wait.
    pub(crate) fn stand(mut self) -> (usize, Bits) {
        self.flush();
        let waiting = Bits {
            bits: self.waiting,
            count: self.count,
        };
        (self.at, waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], count: usize) -> Vec<bool> {
        let bit = |at: usize| bytes[at / 8] >> (at % 8) & 1 == 1;
        (0..count).map(bit).collect()
    }

    proptest! {
        #[test]
        fn bits_stand_behind_each_other(
            texts in prop::collection::vec(
                prop::collection::vec((any::<u64>(), 0..=56_u32), 0..9),
                0..9,
            ),
            between in prop::collection::vec((any::<u64>(), 0..=49_u32), 9),
        ) {
            let (mut expected, mut buffer) = (Vec::new(), vec![0xff; 8192]);
            let mask = |bits: u64, count: u32| bits & ((1 << count) - 1);
            let mut note = |bits: u64, count: u32| {
                expected.extend((0..count).map(|at| bits >> at & 1 == 1));
            };
            let mut writer = BitWriter::new(&mut buffer, 0, Bits::default());
            for (text, (bits, count)) in texts.iter().zip(between) {
                let mut ready = BitText::default();
                for &(bits, count) in text {
                    let bits = mask(bits, count);
                    ready.push(Bits { bits, count });
                    note(bits, count);
                }
                writer.text(&ready.finish());
                writer.add(mask(bits, count), count);
                note(bits, count);
                writer.flush();
            }
            let (at, waiting) = writer.stand();
            prop_assert_eq!(at * 8 + waiting.count as usize, expected.len());
            buffer[at] = waiting.bits as u8;
            prop_assert_eq!(read(&buffer, expected.len()), expected);
        }
    }
}
