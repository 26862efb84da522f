//! The header table: lines as spans, with the headers the protocol cares about recognized on the
//! way.

use super::fields::{TOKEN, is_space};
use super::{HeadFault, Span};
use crate::scan::Simd;

/// Most headers a head may have, whatever the configured limit.
pub const HEADERS_CAPACITY: usize = 100;

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
    TraceParent "traceparent",
    TraceState "tracestate",
    TransferEncoding "transfer-encoding",
    XRequestId "x-request-id",
}

impl Known {
    /// The known header of this name. `name` must be a token: then only letters and `-` can come
    /// out of setting the bit that makes letters lower case as what the names are made of.
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
            10 if is(name, b"tracestate") => Known::TraceState,
            11 if is(name, b"retry-after") => Known::RetryAfter,
            11 if is(name, b"traceparent") => Known::TraceParent,
            12 if is(name, b"content-type") => Known::ContentType,
            12 if is(name, b"x-request-id") => Known::XRequestId,
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
pub(crate) struct Headers {
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

    /// Becomes those of a head whose lines stand `by` bytes further on ([`Span::shifted`]) here.
    #[inline(always)]
    pub(crate) fn become_like(&mut self, others: &Headers, by: u16) {
        self.count = others.count;
        self.first = others.first;
        for (header, other) in self.list.iter_mut().zip(others.as_slice()) {
            *header = Header {
                name: other.name.shifted(by),
                value: other.value.shifted(by),
                known: other.known,
            };
        }
    }

    /// All header lines.
    #[inline]
    #[must_use]
    pub(crate) fn as_slice(&self) -> &[Header] {
        &self.list[..self.count]
    }

    /// The value of the first line of a known header.
    #[inline]
    #[must_use]
    pub(crate) fn known(&self, known: Known) -> Option<Span> {
        let index = usize::from(self.first[known as usize]).checked_sub(1)?;
        Some(self.list[index].value)
    }

    /// The values of all lines of a known header.
    #[inline]
    pub(crate) fn all_known(&self, known: Known) -> impl Iterator<Item = Span> {
        let first = usize::from(self.first[known as usize]).checked_sub(1);
        let lines = first.and_then(|first| self.as_slice().get(first..));
        let lines = lines.unwrap_or_default().iter();
        lines
            .filter(move |header| header.known == Some(known))
            .map(|header| header.value)
    }

    /// The values of all lines with this name, in any case of letters.
    pub(crate) fn all<'a>(
        &'a self,
        bytes: &'a [u8],
        name: &'a str,
    ) -> impl Iterator<Item = &'a [u8]> {
        self.as_slice()
            .iter()
            .filter(move |header| header.name.of(bytes).eq_ignore_ascii_case(name.as_bytes()))
            .map(move |header| header.value.of(bytes))
    }

    /// Parses the line `start..end` of `window` (RFC 9112 section 5) and adds it. Gives the known
    /// header it is; [`Headers::last`] says more, since a longer answer would be put together in
    /// memory from stores too narrow for the load after them.
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
        // With this the compiler knows that what is below `end` is in bounds.
        let text = &window[..end];
        let name = match text.get(colon) {
            Some(b':') if colon > start => &text[start..colon],
            _ => return Err(bad_name(&text[start..], colon - start)),
        };
        let count = self.count;
        if count >= count_max {
            return Err(HeadFault::TooManyHeaders);
        }
        let Some(header) = self.list.get_mut(count) else {
            return Err(HeadFault::TooManyHeaders);
        };
        let value = match &text[colon + 1..] {
            // One space before and none after is what nearly all clients send.
            [b' ', value @ ..]
                if value.first().is_some_and(|byte| !is_space(*byte))
                    && value.last().is_some_and(|byte| !is_space(*byte)) =>
            {
                Span::new(colon + 2, end)
            }
            _ => trimmed(text, colon + 1),
        };
        let known = Known::recognize(name);
        *header = Header {
            name: Span::new(start, colon),
            value,
            known,
        };
        self.count = count + 1;
        if let Some(known) = known {
            let first = &mut self.first[known as usize];
            if *first == 0 {
                *first = count as u8 + 1;
            }
        }
        Ok(known)
    }

    /// The value of the line added last, and whether it is the first of the known header it is.
    #[inline(always)]
    pub(crate) fn last(&self, known: Known) -> (Span, bool) {
        let value = self.as_slice().last().map(|header| header.value);
        let is_first = usize::from(self.first[known as usize]) == self.count;
        (value.unwrap_or_default(), is_first)
    }
}

/// The end of `text` from `start` without the white space around it.
fn trimmed(text: &[u8], start: usize) -> Span {
    let (mut from, mut to) = (start, text.len());
    while from < to && is_space(text[from]) {
        from += 1;
    }
    while from < to && is_space(text[to - 1]) {
        to -= 1;
    }
    Span::new(from, to)
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
}
