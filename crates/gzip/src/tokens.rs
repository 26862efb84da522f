//! Fragments as literals and matches (RFC 1951, section 4): found once, when a page is loaded, so
//! with care. A match is to the same fragment, or to one of those before.

use crate::symbols::{DISTANCE_MAX, MATCH_MAX, MATCH_MIN};

/// How many earlier places are looked at for the longest match.
const LOOKED_AT: usize = 256;
/// A match that is as long is taken without looking at more.
const LONG: usize = 128;
/// A match to another fragment is no shorter: whether it can be had is known late, and to decide
/// takes time.
const FAR_MIN: usize = 8;
/// It is so much longer than the best one in the fragment itself.
const FAR_GAIN: usize = 4;

/// A piece of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Literal(u8),
    /// The bytes so far before, in the same fragment.
    Match {
        length: usize,
        distance: u32,
    },
    /// Bytes of a fragment before it in the list.
    Far(Far),
}

/// See [`Token::Far`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Far {
    /// Which fragment.
    pub(crate) fragment: usize,
    /// Where in it.
    pub(crate) at: u32,
    pub(crate) length: usize,
    /// The same bytes without it.
    pub(crate) instead: Vec<Token>,
}

/// Finds the tokens of fragments, which are given in the order in which pages have them.
#[derive(Debug, Default)]
pub(crate) struct Tokenizer<'t> {
    fragments: Vec<&'t [u8]>,
    places: Places,
}

/// Where three bytes stand: chains of places, the latest first.
#[derive(Debug, Default)]
struct Places {
    /// By a hash of three bytes: the last place where they, or others with their hash, stand.
    last: Vec<u32>,
    /// Of each place: fragment, place in it, and the place before with the same hash.
    all: Vec<(u32, u32, u32)>,
}

/// Places of the table of hashes, a power of two.
const HASHES: usize = 1 << 14;
/// There is none before.
const NONE: u32 = u32::MAX;

impl Places {
    fn hash([a, b, c]: [u8; 3]) -> usize {
        hash(&[a, b, c, 0], HASHES)
    }

    fn push(&mut self, key: [u8; 3], fragment: u32, at: u32) {
        if self.last.is_empty() {
            self.last = vec![NONE; HASHES];
        }
        let last = &mut self.last[Places::hash(key)];
        self.all.push((fragment, at, *last));
        *last = self.all.len() as u32 - 1;
    }

    /// Places with these bytes, or others with their hash, the latest first.
    fn latest(&self, key: [u8; 3]) -> impl Iterator<Item = (u32, u32)> {
        let mut next = self.last.get(Places::hash(key)).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let &(fragment, at, before) = self.all.get(next as usize)?;
            next = before;
            Some((fragment, at))
        })
    }
}

/// The longest match at a place.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    fragment: u32,
    at: u32,
    length: usize,
}

impl<'t> Tokenizer<'t> {
    /// The tokens of the next fragment.
    pub(crate) fn tokens(&mut self, text: &'t [u8]) -> Vec<Token> {
        let own = self.fragments.len();
        self.fragments.push(text);
        let mut tokens = Vec::new();
        self.find(own, 0, text.len(), true, &mut tokens);
        tokens
    }

    /// Appends the tokens of a part of a fragment; those of other fragments only if they `may` be.
    /// What precedes the part is known already, and the part is afterwards if they may.
    fn find(&mut self, own: usize, from: usize, to: usize, far: bool, tokens: &mut Vec<Token>) {
        let text = self.fragments[own];
        let mut at = from;
        // The best at a place, unless the next place has a better one.
        let mut held: Option<(Found, Found)> = None;
        while at < to {
            let (near, other) = match held.take() {
                Some(found) => found,
                None => self.best(own, at, to, far),
            };
            if far {
                self.note(own, at);
            }
            let length = near.length.max(other.length);
            if length < MATCH_MIN {
                tokens.push(Token::Literal(text[at]));
                at += 1;
                continue;
            }
            if length < LONG && at + 1 < to {
                let next = self.best(own, at + 1, to, far);
                if next.0.length.max(next.1.length) > length {
                    tokens.push(Token::Literal(text[at]));
                    held = Some(next);
                    at += 1;
                    continue;
                }
            }
            if other.length > 0 {
                let mut instead = Vec::new();
                self.find(own, at, at + length, false, &mut instead);
                tokens.push(Token::Far(Far {
                    fragment: other.fragment as usize,
                    at: other.at,
                    length,
                    instead,
                }));
            } else {
                let distance = at as u32 - near.at;
                tokens.push(Token::Match { length, distance });
            }
            if far {
                for passed in at + 1..at + length {
                    self.note(own, passed);
                }
            }
            at += length;
        }
    }

    /// From now on the three bytes there can be found.
    fn note(&mut self, own: usize, at: usize) {
        if let Some(key) = key(self.fragments[own], at) {
            self.places.push(key, own as u32, at as u32);
        }
    }

    /// The longest match in the same fragment, and, if that is to be preferred, the longest in
    /// another one: then the length of the first is 0.
    fn best(&self, own: usize, at: usize, to: usize, far: bool) -> (Found, Found) {
        let text = self.fragments[own];
        let (mut near, mut other) = (Found::default(), Found::default());
        let room = (to - at).min(MATCH_MAX);
        let Some(key) = key(text, at) else {
            return (near, other);
        };
        let wanted = &text[at..at + room];
        for (fragment, place) in self.places.latest(key).take(LOOKED_AT) {
            let is_own = fragment as usize == own;
            // What was noted of the part itself, while it was looked through before, is ahead.
            let is_ahead = is_own && place as usize >= at;
            let is_too_far = is_own && at as u32 - place.min(at as u32) > DISTANCE_MAX;
            if is_ahead || is_too_far || !(is_own || far) {
                continue;
            }
            let source = &self.fragments[fragment as usize][place as usize..];
            let best = if is_own { &mut near } else { &mut other };
            // A longer one has the byte behind the best.
            if source.get(best.length) != wanted.get(best.length) {
                continue;
            }
            let equal = common(source, wanted);
            // Of equal ones the nearest, which was there first.
            if equal > best.length {
                *best = Found {
                    fragment,
                    at: place,
                    length: equal,
                };
            }
        }
        if near.length < MATCH_MIN {
            near.length = 0;
        }
        if other.length < FAR_MIN || other.length < near.length + FAR_GAIN {
            other.length = 0;
        } else {
            near.length = 0;
        }
        (near, other)
    }
}

/// Where four bytes stand in a table of so many places, a power of two: Knuth's multiplicative
/// hash.
#[inline(always)]
pub(crate) fn hash(four: &[u8], places: usize) -> usize {
    let four = four
        .first_chunk()
        .map_or(0, |four| u32::from_le_bytes(*four));
    (four.wrapping_mul(2_654_435_761) >> (32 - places.ilog2())) as usize
}

/// How many bytes two texts begin with that are the same.
fn common(a: &[u8], b: &[u8]) -> usize {
    let (eights_a, eights_b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let eights = eights_a.iter().zip(eights_b);
    let same = 8 * eights.take_while(|(a, b)| a == b).count();
    let rest = a[same..].iter().zip(&b[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

/// Three bytes, if there are as many.
fn key(text: &[u8], at: usize) -> Option<[u8; 3]> {
    text.get(at..at + 3)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What tokens stand for; `before` are the fragments before.
    fn expand(tokens: &[Token], before: &[Vec<u8>], skip_far: bool, text: &mut Vec<u8>) {
        for token in tokens {
            match token {
                Token::Literal(byte) => text.push(*byte),
                Token::Match { length, distance } => {
                    for _ in 0..*length {
                        text.push(text[text.len() - *distance as usize]);
                    }
                }
                Token::Far(far) if skip_far => expand(&far.instead, before, true, text),
                Token::Far(far) => {
                    let source = &before[far.fragment][far.at as usize..];
                    text.extend_from_slice(&source[..far.length]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn tokens_stand_for_their_text(
            texts in prop::collection::vec("[ab]{0,40}(abcabca|hello world|<td>){0,9}", 1..6),
        ) {
            let texts: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
            let mut tokenizer = Tokenizer::default();
            for (index, text) in texts.iter().enumerate() {
                let tokens = tokenizer.tokens(text);
                for skip_far in [false, true] {
                    let mut expanded = Vec::new();
                    expand(&tokens, &texts[..index], skip_far, &mut expanded);
                    prop_assert_eq!(&expanded, text);
                }
            }
        }
    }

    #[test]
    fn long_repetitions_are_found_in_and_among_fragments() {
        let mut tokenizer = Tokenizer::default();
        let first = tokenizer.tokens(b"<tr><td>name</td></tr>");
        assert_eq!(first.last(), Some(&Token::Literal(b'>')));
        let second = tokenizer.tokens(b"</td></tr><tr><td>name</td>");
        let fars = second.iter().filter(|token| matches!(token, Token::Far(_)));
        assert_eq!(fars.count(), 2, "{second:?}");
        let third = tokenizer.tokens(&[b'x'; 600]);
        assert_eq!(third.len(), 4, "{third:?}");
    }
}
