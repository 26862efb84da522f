//! What request and response heads have in common: the scan that finds lines, and the header table.
//!
//! The idea: for each 64 bytes, masks of CR, LF and the other forbidden control characters. In a
//! sound head every LF follows a CR and every CR is followed by an LF, so `LF == CR shifted by one`
//! and nothing else forbidden checks 64 bytes at once; each LF then ends a line, which is parsed
//! while it is hot. Errors come in the order of their position: lines before a bad byte are parsed
//! before it is reported. Together with parsing from left to right this makes the result
//! independent of how the bytes arrived.
//!
//! The scan remembers how far it came, so a head that arrives byte by byte is still scanned once.

mod fields;
mod headers;

use crate::scan::{self, Simd};
use core::ops::Range;

pub use fields::is_token;
pub(crate) use fields::{ConnectionOptions, TOKEN, TransferCodings, decimal, elements, trim};
pub(crate) use headers::Headers;
pub use headers::{HEADERS_CAPACITY, Header, Known};

/// Most bytes a head may have, whatever the configured limit: what a [`Span`] can point at.
pub const HEAD_CAPACITY: usize = u16::MAX as usize;

/// A place in a head: offsets into the bytes it was parsed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u16,
    /// Offset past the last byte.
    pub end: u16,
}

impl Span {
    /// From offsets inside a head; heads are cut at [`HEAD_CAPACITY`] before they are parsed.
    #[inline(always)]
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span {
            start: start as u16,
            end: end as u16,
        }
    }

    /// The same place where everything stands `by` bytes further on; what is past the end of the
    /// numbers begins anew, so that the complement of a distance goes back.
    #[inline(always)]
    pub(crate) fn shifted(self, by: u16) -> Span {
        Span {
            start: self.start.wrapping_add(by),
            end: self.end.wrapping_add(by),
        }
    }

    /// The bytes it points at; nothing if `bytes` is not what was parsed and too short.
    #[inline]
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.range()).unwrap_or(&[])
    }

    /// The offsets as a range.
    #[inline]
    #[must_use]
    pub fn range(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.end)
    }

    /// How many bytes it has.
    #[inline]
    #[must_use]
    pub fn len(self) -> usize {
        self.range().len()
    }

    /// Whether it has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// How far parsing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All is well so far, but the head is not complete.
    Partial,
    /// The head is complete; what follows it starts at `head_len`.
    Complete {
        /// Bytes the head has, the empty line and any leading empty lines included.
        head_len: usize,
    },
}

/// What can be wrong with any head; requests and responses turn it into their own errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    BareCr,
    BareLf,
    Control,
    Fold,
    NameEmpty,
    NameInvalid,
    SpaceBeforeColon,
    ColonMissing,
    TooManyHeaders,
}

/// Where the scan is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// Everything before is scanned; never between a CR and its LF.
    scanned: usize,
    /// Where the line that is not complete yet starts.
    line: usize,
    /// Nothing more to parse: the next call starts anew.
    pub(crate) finished: bool,
}

impl Cursor {
    /// How many bytes are scanned.
    pub(crate) fn scanned(self) -> usize {
        self.scanned
    }
}

/// Takes the lines of a head as the scan finds them.
pub(crate) trait Lines {
    type Error: From<HeadFault>;

    /// Takes the line `start..end`; true if it ended the head.
    fn line<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        start: usize,
        end: usize,
    ) -> Result<bool, Self::Error>;

    /// Looks at a line of which only `start..end` is there, to refuse garbage early. What it
    /// refuses, `line` must refuse in the same way however the line goes on.
    fn partial<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(), Self::Error>;

    /// The error for a head longer than allowed.
    fn too_large(&self) -> Self::Error;
}

/// Scans on through `bytes`, all of the message there is so far, and gives its lines to `lines`.
#[inline(always)]
pub(crate) fn scan_head<S: Simd, L: Lines>(
    s: S,
    bytes: &[u8],
    size_max: usize,
    cursor: &mut Cursor,
    lines: &mut L,
) -> Result<Progress, L::Error> {
    let size_max = size_max.min(HEAD_CAPACITY);
    let window = &bytes[..bytes.len().min(size_max)];
    if cursor.scanned > window.len() {
        // More than that was allowed when it was scanned.
        return Err(lines.too_large());
    }
    let mut line = cursor.line;
    let mut at = cursor.scanned;
    let mut after_cr = 0;
    while at < window.len() {
        let (block, skip) = scan::block_at(s, window, at);
        let cr = s.eq(block, b'\r');
        let lf = s.eq(block, b'\n');
        let lf_due = cr << 1 | after_cr;
        let mut controls = s.unprintable(block) & !(cr | lf);
        if controls != 0 {
            // Most heads are all ASCII and have no tabs, so what may be there is only looked at
            // now.
            controls &= !(s.non_ascii(block) | s.eq(block, b'\t'));
        }
        let bad = (controls | (lf ^ lf_due)) >> skip;
        // Only lines before the first bad byte.
        let mut ends = lf >> skip & bad.wrapping_sub(1) & !bad;
        while ends != 0 {
            let end = at + ends.trailing_zeros() as usize;
            ends &= ends - 1;
            if lines.line(s, window, line, end - 1)? {
                return Ok(Progress::Complete { head_len: end + 1 });
            }
            line = end + 1;
        }
        if bad != 0 {
            let bad = at + bad.trailing_zeros() as usize;
            lines.partial(s, window, line, bad)?;
            return Err(control_fault(window, bad).into());
        }
        after_cr = cr >> 63;
        at += 64;
    }
    lines.partial(s, window, line, window.len())?;
    if window.len() >= size_max {
        return Err(lines.too_large());
    }
    cursor.line = line;
    cursor.scanned = window.len() - usize::from(window.last() == Some(&b'\r'));
    Ok(Progress::Partial)
}

/// What is wrong with the byte at `at`.
#[cold]
fn control_fault(window: &[u8], at: usize) -> HeadFault {
    if at > 0 && window[at - 1] == b'\r' && window[at] != b'\n' {
        HeadFault::BareCr
    } else if window[at] == b'\n' {
        HeadFault::BareLf
    } else {
        HeadFault::Control
    }
}
