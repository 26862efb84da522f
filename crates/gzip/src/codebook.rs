//! What a page's gzip streams have in common: its code, and its fragments as bits of it.

use crate::bits::{BitText, Bits};
use crate::crc::Shift;
use crate::huffman::{Code, Counts};
use crate::symbols::{DISTANCES, LITERALS, MATCH_BITS_MAX, MATCH_MAX, of_distance, of_length};
use crate::tokens::{Far, Token, Tokenizer, hash};
use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash, Hasher};

/// The head of all streams (RFC 1952, section 2.3.1): deflate, no name, no time, any system.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// What runs are expected to hold, where nothing is known of them.
const SAMPLE: &[u8] = b"0123456789 0123456789 0011223344556677889900.,.,--::/ etaoin shrdlu \
    etaoinshrdlucmfwypvbgkjqxz etaoinshr ETAOINSHRDLUCMFWYPVBGKJQXZ &amp;&#39;";
/// How many they are, in hundredths of the literals of fragments. (Of Banking's pages, 10 to 120
/// make 1.06 to 1.08 of what gzip -6 makes.)
const SAMPLE_SHARE: u32 = 20;

/// Places of the table of what fragments have: 16 KiB.
const KNOWN: usize = 1 << 11;
/// No fragment's place.
const NOWHERE: (u32, u32) = (u32::MAX, 0);

/// A page's static text: its number, by which a stitcher is told of it, and its bytes.
pub type Fragment<'t> = (u32, &'t [u8]);

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Codebook {
    pub(crate) code: Code,
    /// The first bytes of all streams: of gzip, and of the one block. And the bits that follow.
    pub(crate) head: Box<[u8]>,
    pub(crate) head_rest: Bits,
    /// By place.
    pub(crate) fragments: Vec<Prepared>,
    /// Places by number, from the least number on.
    places: Vec<u32>,
    first: u32,
    /// By a hash of four bytes of fragments: the place of one that has them, and where.
    known: Box<[(u32, u32); KNOWN]>,
    /// A hash of the samples.
    samples: u64,
}

/// A fragment that is ready to be given.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) text: Box<[u8]>,
    pub(crate) parts: Vec<Part>,
    /// Bits that all parts take at most.
    pub(crate) bits_max: usize,
    pub(crate) crc: u32,
    pub(crate) shift: Shift,
}

/// A piece of one.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Always the same.
    Bits(BitText),
    /// A match to an earlier fragment, or else these bits; it begins so many bytes behind its own
    /// fragment's begin.
    Far {
        fragment: u32,
        at: u32,
        length: usize,
        behind: u32,
        instead: BitText,
    },
}

impl Codebook {
    /// That of a page with these fragments, in the order in which it has them; one may be there
    /// several times. `samples` are texts that its runs have, as far as they are known.
    #[must_use]
    pub fn new<'t>(
        fragments: impl IntoIterator<Item = Fragment<'t>>,
        samples: impl IntoIterator<Item = &'t [u8], IntoIter: Clone>,
    ) -> Codebook {
        let samples = samples.into_iter();
        let mut tokenizer = Tokenizer::default();
        let mut numbers = HashMap::new();
        let (mut texts, mut tokens) = (Vec::new(), Vec::new());
        for (number, text) in fragments {
            if let Entry::Vacant(place) = numbers.entry(number) {
                place.insert(texts.len() as u32);
                texts.push(text);
                tokens.push(tokenizer.tokens(text));
            }
        }
        let first = numbers.keys().min().copied().unwrap_or(0);
        let behind = numbers.keys().max().map_or(first, |last| last + 1);
        let mut places = vec![u32::MAX; (behind - first) as usize];
        for (number, place) in numbers {
            places[(number - first) as usize] = place;
        }
        let code = Code::new(&count(&tokens, samples.clone()));
        let mut head = code.head();
        let mut bytes = GZIP_HEAD.to_vec();
        let head_rest = head.take_bytes(&mut bytes);
        let fragments = (texts.iter().zip(&tokens))
            .map(|(text, tokens)| prepare(&code, text, tokens))
            .collect();
        let mut known = Box::new([NOWHERE; KNOWN]);
        for (place, text) in (0..).zip(&texts) {
            for (at, four) in (0..).zip(text.windows(4)) {
                known[hash(four, KNOWN)] = (place, at);
            }
        }
        Codebook {
            code,
            head: bytes.into(),
            head_rest,
            fragments,
            places,
            first,
            known,
            samples: hash_of(samples),
        }
    }

    /// Whether it is that of a page with these, so that no other need be made.
    #[must_use]
    pub fn is_of<'t>(
        &self,
        fragments: impl IntoIterator<Item = Fragment<'t>>,
        samples: impl IntoIterator<Item = &'t [u8]>,
    ) -> bool {
        let mut next = 0;
        let is_same = fragments.into_iter().all(|(number, text)| {
            let at = number.checked_sub(self.first);
            let place = at.and_then(|at| self.places.get(at as usize));
            let Some(&place) = place.filter(|place| **place <= next) else {
                return false;
            };
            // One that is there again was looked at.
            let is_new = place == next;
            next += u32::from(is_new);
            let own = self.fragments.get(place as usize);
            !is_new || own.is_some_and(|own| *own.text == *text)
        });
        is_same && next as usize == self.fragments.len() && hash_of(samples) == self.samples
    }

    /// Which fragment may have four bytes that begin a text, and where.
    #[inline(always)]
    pub(crate) fn known(&self, four: &[u8]) -> (u32, u32) {
        self.known[hash(four, KNOWN)]
    }

    /// A fragment, and its place.
    ///
    /// # Panics
    /// When the page has no such fragment.
    #[inline]
    pub(crate) fn fragment(&self, number: u32) -> (usize, &Prepared) {
        let place = self.places[(number - self.first) as usize] as usize;
        (place, &self.fragments[place])
    }
}

/// A hash of texts, to know the same ones again.
fn hash_of<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    texts.into_iter().for_each(|text| text.hash(&mut hasher));
    hasher.finish()
}

/// How often symbols are expected: as often as fragments have them, and runs probably.
fn count<'t>(fragments: &[Vec<Token>], samples: impl IntoIterator<Item = &'t [u8]>) -> Counts {
    let mut counts = Counts {
        literals: [0; LITERALS],
        distances: [0; DISTANCES],
    };
    for tokens in fragments {
        for token in tokens {
            let length = match token {
                Token::Literal(byte) => {
                    counts.literals[usize::from(*byte)] += 1;
                    continue;
                }
                Token::Match { length, distance } => {
                    counts.distances[of_distance(*distance).symbol] += 1;
                    *length
                }
                // Its distance is not known: the middle of what it can be.
                Token::Far(Far { length, .. }) => {
                    counts.distances[of_distance(2000).symbol] += 1;
                    *length
                }
            };
            counts.literals[of_length(length).symbol] += 1;
        }
    }
    for byte in samples.into_iter().flatten() {
        counts.literals[usize::from(*byte)] += 1;
    }
    let literals: u32 = counts.literals[..256].iter().sum();
    let matches: u32 = counts.distances.iter().sum();
    // Counts are taken sixteen times, so that what is seldom can be counted less than once.
    let sixteen = |count: &mut u32| *count = *count * 16 + 1;
    counts.literals.iter_mut().for_each(sixteen);
    counts.distances.iter_mut().for_each(sixteen);
    let each = (literals.max(100) * 16 / 100 * SAMPLE_SHARE / SAMPLE.len() as u32).max(1);
    for byte in SAMPLE {
        counts.literals[usize::from(*byte)] += each;
    }
    // The same for what repeats in runs: rows, at the distance of a row or some.
    let each = (matches.max(16) * 16 / 12 / 12).max(1);
    for distance in [40, 60, 80, 100, 150, 200, 300, 400, 600, 800, 1200, 2000] {
        counts.distances[of_distance(distance).symbol] += each;
    }
    for length in [4, 5, 6, 7, 8, 9, 10, 12, 14, 20, 30, 40] {
        counts.literals[of_length(length).symbol] += each;
    }
    counts
}

/// A fragment's tokens as bits.
fn prepare(code: &Code, text: &[u8], tokens: &[Token]) -> Prepared {
    let mut parts = Vec::new();
    let (mut bits, mut at, mut bits_max) = (BitText::default(), 0_usize, 0);
    for token in tokens {
        match token {
            Token::Far(far) => {
                let mut instead = BitText::default();
                put(code, &far.instead, &mut instead);
                bits_max += instead.count().max(64);
                parts.push(Part::Bits(std::mem::take(&mut bits).finish()));
                parts.push(Part::Far {
                    fragment: far.fragment as u32,
                    at: far.at,
                    length: far.length,
                    behind: at as u32,
                    instead: instead.finish(),
                });
                at += far.length;
            }
            near => {
                put(code, std::slice::from_ref(near), &mut bits);
                at += match near {
                    Token::Match { length, .. } => *length,
                    _ => 1,
                };
            }
        }
    }
    parts.push(Part::Bits(bits.finish()));
    parts.retain(|part| !matches!(part, Part::Bits(bits) if bits.count() == 0));
    for part in &parts {
        if let Part::Bits(bits) = part {
            bits_max += bits.count();
        }
    }
    Prepared {
        text: text.into(),
        parts,
        // Where it stands again it is matches to itself, which may be more than that: of a text
        // that repeats itself, a few bits here match what is near.
        bits_max: bits_max.max(MATCH_BITS_MAX * (text.len() / MATCH_MAX + 1)),
        crc: crc32fast::hash(text),
        shift: Shift::by(text.len()),
    }
}

/// Appends the bits of tokens, none of them far.
fn put(code: &Code, tokens: &[Token], bits: &mut BitText) {
    for token in tokens {
        match token {
            Token::Literal(byte) => bits.push(code.literal(*byte)),
            Token::Match { length, distance } => {
                bits.push(code.length(*length));
                bits.push(code.distance(*distance));
            }
            Token::Far(_) => unreachable!("it has bits of its own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_stays_the_same_is_known_again() {
        let (a, b): (&[u8], &[u8]) = (b"<tr><td>name</td></tr>", b"</table></body></html>");
        let samples: [&[u8]; 1] = [b"<b>"];
        let book = Codebook::new([(7, a), (3, b), (7, a)], samples);
        assert!(book.is_of([(7, a), (3, b), (7, a)], samples));
        assert!(book.is_of([(7, a), (3, b)], samples), "the same fragments");
        for fragments in [
            &[(7, a)][..],
            &[(3, b), (7, a)],
            &[(7, b), (3, a)],
            &[(7, a), (4, b)],
            &[(2, a), (3, b)],
            &[(7, a), (3, b), (5, a)],
            &[(7, a), (3, b), (8, a)],
        ] {
            let is_of = book.is_of(fragments.iter().copied(), samples);
            assert!(!is_of, "{fragments:?}");
        }
        assert!(!book.is_of([(7, a), (3, b)], [&b"<i>"[..]]));
    }
}
