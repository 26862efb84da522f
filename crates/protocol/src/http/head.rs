//! What request and response heads have in common: the scan that finds lines, and the header table.
//!
//! The idea: for each 64 bytes, masks of CR, LF and the other forbidden control characters. In a sound head
//! every LF follows a CR and every CR is followed by an LF, so `LF == CR shifted by one` and nothing else forbidden
//! checks 64 bytes at once; each LF then ends a line, which is parsed while it is hot. Errors come in
//! the order of their position: lines before a bad byte are parsed before it is reported. Together with
//! parsing from left to right this makes the result independent of how the bytes arrived.
//!
//! The scan remembers how far it came, so a head that arrives byte by byte is still scanned once.

use crate::scan::{self, ALPHANUMERIC, ByteSet, Simd};
use core::ops::Range;

/// Characters of a token (RFC 9110 section 5.6.2): methods, header names, transfer codings.
pub(crate) const TOKEN: ByteSet = ALPHANUMERIC.or(ByteSet::new(b"!#$%&'*+-.^_`|~"));

/// Most headers a head may have, whatever the configured limit.
pub const HEADERS_CAPACITY: usize = 100;

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

macro_rules! known {
    ($($variant:ident $name:literal,)*) => {
        /// Headers recognized while scanning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Known {
            $(#[doc = $name] $variant,)*
        }

        impl Known {
            /// How many there are.
            pub(crate) const COUNT: usize = [$(Known::$variant),*].len();

            /// All of them.
            pub const ALL: [Known; Known::COUNT] = [$(Known::$variant),*];

            /// Its name in lower case.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Known::$variant => $name,)* }
            }
        }
    };
}

known! {
    AcceptEncoding "accept-encoding",
    Connection "connection",
    ContentEncoding "content-encoding",
    ContentLength "content-length",
    ContentRange "content-range",
    ContentType "content-type",
    Cookie "cookie",
    Date "date",
    ETag "etag",
    Expect "expect",
    Host "host",
    IfMatch "if-match",
    IfModifiedSince "if-modified-since",
    IfNoneMatch "if-none-match",
    IfRange "if-range",
    IfUnmodifiedSince "if-unmodified-since",
    LastModified "last-modified",
    Location "location",
    Range "range",
    RetryAfter "retry-after",
    SetCookie "set-cookie",
    TransferEncoding "transfer-encoding",
}

impl Known {
    /// The known header of this name. `name` must be a token: then only letters and `-` can come out of
    /// setting the bit that makes letters lower case as what the names are made of.
    #[inline(always)]
    fn recognize(name: &[u8]) -> Option<Known> {
        /// Compares words, which may overlap, instead of bytes.
        #[inline(always)]
        fn is<const N: usize>(name: &[u8], want: &[u8; N]) -> bool {
            let Ok(name) = <&[u8; N]>::try_from(name) else {
                return false;
            };
            let differ = |at: usize| {
                let word = |text: &[u8; N]| match text[at..].first_chunk::<8>() {
                    Some(word) => u64::from_ne_bytes(*word),
                    None => text[at..]
                        .first_chunk::<4>()
                        .map_or(0, |word| u64::from(u32::from_ne_bytes(*word))),
                };
                (word(name) | 0x2020_2020_2020_2020) ^ (word(want) | 0x2020_2020_2020_2020)
            };
            let differs = match N {
                4 => differ(0),
                5..8 => differ(0) | differ(N - 4),
                8..=16 => differ(0) | differ(N - 8),
                _ => differ(0) | differ(8) | differ(N - 8),
            };
            differs == 0
        }
        let known = match name.len() {
            4 if is(name, b"host") => Known::Host,
            4 if is(name, b"date") => Known::Date,
            4 if is(name, b"etag") => Known::ETag,
            5 if is(name, b"range") => Known::Range,
            6 if is(name, b"cookie") => Known::Cookie,
            6 if is(name, b"expect") => Known::Expect,
            8 if is(name, b"if-match") => Known::IfMatch,
            8 if is(name, b"if-range") => Known::IfRange,
            8 if is(name, b"location") => Known::Location,
            10 if is(name, b"connection") => Known::Connection,
            10 if is(name, b"set-cookie") => Known::SetCookie,
            11 if is(name, b"retry-after") => Known::RetryAfter,
            12 if is(name, b"content-type") => Known::ContentType,
            13 if is(name, b"if-none-match") => Known::IfNoneMatch,
            13 if is(name, b"content-range") => Known::ContentRange,
            13 if is(name, b"last-modified") => Known::LastModified,
            14 if is(name, b"content-length") => Known::ContentLength,
            15 if is(name, b"accept-encoding") => Known::AcceptEncoding,
            16 if is(name, b"content-encoding") => Known::ContentEncoding,
            17 if is(name, b"transfer-encoding") => Known::TransferEncoding,
            17 if is(name, b"if-modified-since") => Known::IfModifiedSince,
            19 if is(name, b"if-unmodified-since") => Known::IfUnmodifiedSince,
            _ => return None,
        };
        Some(known)
    }
}

/// A header line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The name as sent.
    pub name: Span,
    /// The value without the white space around it.
    pub value: Span,
    /// Which one it is, if it is one of those recognized.
    pub known: Option<Known>,
}

/// The headers of one head, in the order they came.
#[derive(Clone, Debug)]
pub struct Headers {
    count: usize,
    /// For each known header, one more than the index of its first line, or 0.
    first: [u8; Known::COUNT],
    list: [Header; HEADERS_CAPACITY],
}

impl Headers {
    pub(crate) fn new() -> Headers {
        Headers {
            count: 0,
            first: [0; Known::COUNT],
            list: [Header::default(); HEADERS_CAPACITY],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.first = [0; Known::COUNT];
    }

    /// All header lines.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[Header] {
        &self.list[..self.count]
    }

    /// The value of the first line of a known header.
    #[inline]
    #[must_use]
    pub fn known(&self, known: Known) -> Option<Span> {
        let index = usize::from(self.first[known as usize]).checked_sub(1)?;
        Some(self.list[index].value)
    }

    /// The values of all lines with this name, in any case of letters.
    pub fn all<'a>(&'a self, bytes: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.as_slice()
            .iter()
            .filter(move |header| header.name.of(bytes).eq_ignore_ascii_case(name.as_bytes()))
            .map(move |header| header.value.of(bytes))
    }

    /// Parses the line `start..end` of `window` (RFC 9112 section 5) and adds it. Gives the known header
    /// it is.
    #[inline(always)]
    pub(crate) fn push<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        start: usize,
        end: usize,
        count_max: usize,
    ) -> Result<Option<Known>, HeadFault> {
        let colon = s.run_end(window, start, end, &TOKEN);
        if colon == start || colon == end || window[colon] != b':' {
            return Err(bad_name(&window[start..end], colon - start));
        }
        if self.count >= count_max.min(HEADERS_CAPACITY) {
            return Err(HeadFault::TooManyHeaders);
        }
        let (mut from, mut to) = (colon + 1, end);
        while from < to && is_space(window[from]) {
            from += 1;
        }
        while from < to && is_space(window[to - 1]) {
            to -= 1;
        }
        let known = Known::recognize(&window[start..colon]);
        self.list[self.count] = Header {
            name: Span::new(start, colon),
            value: Span::new(from, to),
            known,
        };
        self.count += 1;
        if let Some(known) = known {
            let first = &mut self.first[known as usize];
            if *first == 0 {
                *first = self.count as u8;
            }
        }
        Ok(known)
    }

    /// The value of the line added last, and whether it is the first of the known header it is.
    #[inline(always)]
    pub(crate) fn last(&self, known: Known) -> (Span, bool) {
        let index = self.count.saturating_sub(1);
        let is_first = usize::from(self.first[known as usize]) == self.count;
        (self.list[index].value, is_first)
    }
}

/// Why a line does not start with a name and a colon.
#[cold]
fn bad_name(line: &[u8], token_len: usize) -> HeadFault {
    let rest = line.get(token_len..).unwrap_or(&[]);
    match rest.first() {
        Some(b' ' | b'\t') if token_len == 0 => HeadFault::Fold,
        Some(b':') => HeadFault::NameEmpty,
        Some(b' ' | b'\t') if rest.trim_ascii_start().first() == Some(&b':') => {
            HeadFault::SpaceBeforeColon
        }
        Some(_) => HeadFault::NameInvalid,
        None => HeadFault::ColonMissing,
    }
}

/// Optional white space (RFC 9110 section 5.6.3).
#[inline(always)]
pub(crate) fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `bytes` without optional white space at both ends.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The elements of a comma-separated list (RFC 9110 section 5.6.1), trimmed, empty ones included.
pub(crate) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(trim)
}

/// Whether `bytes` is a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| TOKEN.contains(*byte))
}

/// The value of a Content-Length: digits only, within 64 bits (RFC 9110 section 8.6).
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9)
            .then(|| sum.checked_mul(10)?.checked_add(u64::from(digit)))
            .flatten()
    })
}

/// What Transfer-Encoding lines say together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransferCodings {
    /// `chunked` was named, and nothing after it.
    pub(crate) chunked: bool,
    /// A coding other than `chunked` was named.
    pub(crate) unknown: bool,
}

impl TransferCodings {
    /// Adds a line's codings; false where they are malformed, name `chunked` twice or something after it
    /// (RFC 9112 section 6.1).
    #[must_use]
    pub(crate) fn add(&mut self, value: &[u8]) -> bool {
        elements(value).all(|coding| {
            if !is_token(coding) || self.chunked {
                return false;
            }
            if coding.eq_ignore_ascii_case(b"chunked") {
                self.chunked = true;
            } else {
                self.unknown = true;
            }
            true
        })
    }
}

/// What Connection lines say together (RFC 9112 section 9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
}

impl ConnectionOptions {
    #[inline(always)]
    pub(crate) fn add(&mut self, value: &[u8]) {
        // What nearly all clients send.
        if value == b"keep-alive" {
            self.keep_alive = true;
        } else {
            self.add_list(value);
        }
    }

    fn add_list(&mut self, value: &[u8]) {
        for option in elements(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Whether the connection outlives the message, of HTTP/1.`minor`.
    pub(crate) fn persists(self, minor: u8) -> bool {
        !self.close && (minor >= 1 || self.keep_alive)
    }
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

    /// Looks at a line of which only `start..end` is there, to refuse garbage early. What it refuses, `line` must
    /// refuse in the same way however the line goes on.
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
    let mut line = cursor.line;
    let mut at = cursor.scanned;
    let mut after_cr = 0;
    while at < window.len() {
        let rest = &window[at..];
        let block = s.load(rest);
        let valid = scan::valid(rest.len());
        let cr = s.eq(block, b'\r');
        let lf = s.eq(block, b'\n');
        let controls = (s.at_most(block, 0x1f) & !s.eq(block, b'\t')) | s.eq(block, 0x7f);
        let lf_due = cr << 1 | after_cr;
        let bad = ((controls & !(cr | lf)) | (lf ^ lf_due)) & valid;
        let mut ends = lf & valid;
        if bad != 0 {
            // Only lines before the first bad byte.
            ends &= (bad & bad.wrapping_neg()) - 1;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_all_known_names_in_any_case() {
        for known in Known::ALL {
            let name = known.name();
            assert_eq!(Known::recognize(name.as_bytes()), Some(known));
            assert_eq!(
                Known::recognize(name.to_uppercase().as_bytes()),
                Some(known)
            );
            assert_eq!(Known::recognize(&name.as_bytes()[1..]), None);
        }
        assert_eq!(Known::recognize(b"hosu"), None);
    }

    #[test]
    fn decimal_is_strict() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"007"), Some(7));
        for bad in [
            "",
            "+1",
            "-1",
            "1 ",
            "0x1",
            "1,1",
            "18446744073709551616",
            "99999999999999999999999",
        ] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn trims_both_ends() {
        assert_eq!(trim(b" \ta b\t "), b"a b");
        assert_eq!(trim(b" \t "), b"");
        let list: Vec<_> = elements(b"a , b,,c").collect();
        assert_eq!(list, [b"a".as_slice(), b"b", b"", b"c"]);
    }
}
