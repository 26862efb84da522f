//! The searches other crates ask for by name, each a walk over masks of 64 bytes.

use super::{ByteSet, Level, Simd, Task};

/// Characters that are written as entities in HTML text and attributes.
const HTML: ByteSet = ByteSet::new(b"<>&\"'/");

/// Where the first character that HTML output escapes is: one of `< > & " ' /`.
#[inline]
#[must_use]
pub fn html_special(bytes: &[u8]) -> Option<usize> {
    struct Find<'a>(&'a [u8]);
    impl Task for Find<'_> {
        type Output = Option<usize>;
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> Option<usize> {
            first(s, self.0, |block| s.in_set(block, &HTML))
        }
    }
    // Most values are a few bytes long: for those the call is dearer than the look.
    if bytes.len() < 8 {
        return bytes.iter().position(|byte| HTML.contains(*byte));
    }
    Level::active().run(Find(bytes))
}

/// Where the first `%`, `+` or NUL is: what decoding a form has to change or to refuse.
#[inline]
#[must_use]
pub fn encoded(bytes: &[u8]) -> Option<usize> {
    struct Find<'a>(&'a [u8]);
    impl Task for Find<'_> {
        type Output = Option<usize>;
        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> Option<usize> {
            let mut at = 0;
            while at < self.0.len() {
                let block = s.load(&self.0[at..]);
                let found = s.eq(block, b'%') | s.eq(block, b'+') | s.eq(block, 0);
                if found != 0 {
                    // What stands behind the end of the bytes reads as NUL.
                    let first = at + found.trailing_zeros() as usize;
                    return (first < self.0.len()).then_some(first);
                }
                at += 64;
            }
            None
        }
    }
    if bytes.len() < 8 {
        return bytes
            .iter()
            .position(|byte| matches!(byte, b'%' | b'+' | 0));
    }
    Level::active().run(Find(bytes))
}

/// The separators and the control characters of up to 64 bytes of a backend's rows, as masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Separators {
    /// `&` (between columns) and LF (after a row).
    pub ends: u64,
    /// LF alone.
    pub lines: u64,
    /// Control characters other than LF; rows have none.
    pub controls: u64,
    /// Bytes from 0x80 up.
    pub non_ascii: u64,
}

/// Finds the separators of the 64 bytes from `at`, which must be below the length of `bytes`; bits
/// past the end are zero.
#[inline(always)]
pub fn separators<S: Simd>(s: S, bytes: &[u8], at: usize) -> Separators {
    let (block, skip) = block_at(s, bytes, at);
    let lines = s.eq(block, b'\n');
    Separators {
        ends: (s.eq(block, b'&') | lines) >> skip,
        lines: lines >> skip,
        controls: ((s.at_most(block, 0x1f) | s.eq(block, 0x7f)) & !lines) >> skip,
        non_ascii: s.non_ascii(block) >> skip,
    }
}

/// The block from `at`, which must be below the length of `bytes`, and 0; or, where fewer than 64
/// bytes are left, the last 64 bytes, with zeros before them where there are fewer, and how far to
/// shift masks of the block to the right. After that bit 0 speaks of the byte at `at`, and bits
/// past the end are zero: so the end of the bytes needs neither a copy nor a mask of its own.
#[inline(always)]
pub(crate) fn block_at<S: Simd>(s: S, bytes: &[u8], at: usize) -> (S::Block, u32) {
    if let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<64>) {
        return (s.load(block), 0);
    }
    if let Some(block) = bytes.last_chunk::<64>() {
        return (s.load(block), (at + 64 - bytes.len()) as u32);
    }
    let mut block = [0; 64];
    let before = 64 - bytes.len();
    block[before..].copy_from_slice(bytes);
    (s.load(&block), (before + at) as u32)
}

/// The first byte with a bit in `mask`, which must not count zero bytes.
#[inline(always)]
fn first<S: Simd>(s: S, bytes: &[u8], mask: impl Fn(S::Block) -> u64) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        let found = mask(s.load(&bytes[at..]));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += 64;
    }
    None
}
