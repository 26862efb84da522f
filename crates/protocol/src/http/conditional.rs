//! Conditional requests and ranges for static files (RFC 9110 sections 13 and 14).

use super::date;
use super::head::{Known, decimal, elements, trim};
use super::request::{Method, RequestHead};

/// Most ranges a request may ask for; with more it gets the whole (RFC 9110 section 14.2).
const RANGES_MAX: usize = 8;

/// What identifies the current state of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Its entity tag with quotes, `W/` before it if weak.
    pub etag: Option<&'a [u8]>,
    /// When it last changed, in seconds since the epoch.
    pub last_modified: Option<u64>,
    /// It has other forms, such as a compressed one, which may have changed at the same time: a
    /// date does not tell one from the other.
    pub has_forms: bool,
}

/// The conditions of a request: its header values, where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// If-Match
    pub if_match: Option<&'a [u8]>,
    /// If-Unmodified-Since
    pub if_unmodified_since: Option<&'a [u8]>,
    /// If-None-Match
    pub if_none_match: Option<&'a [u8]>,
    /// If-Modified-Since
    pub if_modified_since: Option<&'a [u8]>,
    /// If-Range
    pub if_range: Option<&'a [u8]>,
    /// Range
    pub range: Option<&'a [u8]>,
}

impl<'a> Conditions<'a> {
    /// Those of a request. Lines of If-Match or of If-None-Match that follow one another are one
    /// list (RFC 9110 section 5.3); otherwise of repeated headers the first line counts.
    #[must_use]
    pub fn of(head: &RequestHead, bytes: &'a [u8]) -> Conditions<'a> {
        let value = |known| head.known(known).map(|span| span.of(bytes));
        Conditions {
            if_match: list(head, bytes, Known::IfMatch),
            if_unmodified_since: value(Known::IfUnmodifiedSince),
            if_none_match: list(head, bytes, Known::IfNoneMatch),
            if_modified_since: value(Known::IfModifiedSince),
            if_range: value(Known::IfRange),
            range: value(Known::Range),
        }
    }
}

/// The entity tags of a header, from the first line to the last of those that follow one another.
/// In one piece, with the names of the later lines in it: these have no quotes, so [`matches_any`]
/// finds no tag in them.
fn list<'a>(head: &RequestHead, bytes: &'a [u8], known: Known) -> Option<&'a [u8]> {
    let mut lines = head
        .headers()
        .iter()
        .skip_while(|line| line.known != Some(known));
    let first = lines.next()?.value;
    let last = lines.take_while(|line| line.known == Some(known)).last();
    let end = last.map_or(first.end, |line| line.value.end);
    bytes.get(usize::from(first.start)..usize::from(end))
}

/// How to answer a request for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With the whole file: 200.
    Whole,
    /// With parts of it: 206.
    Parts(Ranges),
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416, with the length in Content-Range.
    Unsatisfiable,
}

/// The parts asked for, in that order; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    count: usize,
    list: [(u64, u64); RANGES_MAX],
}

impl Ranges {
    /// Each part's first and last byte, both included.
    #[must_use]
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.list[..self.count]
    }
}

/// Evaluates a request's conditions in the order of RFC 9110 section 13.2.2, for a file of `len`
/// bytes. `now`, in seconds since the epoch, serves to read old dates.
#[must_use]
pub fn evaluate(
    method: Method,
    conditions: &Conditions<'_>,
    current: &Validators<'_>,
    len: u64,
    now: u64,
) -> Outcome {
    let reads = matches!(method, Method::Get | Method::Head);
    if let Some(tags) = conditions.if_match {
        if !matches_any(tags, current.etag, strong_equal) {
            return Outcome::PreconditionFailed;
        }
    } else if let (Some(date), Some(modified)) = (
        conditions
            .if_unmodified_since
            .and_then(|d| date::parse(d, now)),
        current.last_modified,
    ) && modified > date
    {
        return Outcome::PreconditionFailed;
    }
    if let Some(tags) = conditions.if_none_match {
        if matches_any(tags, current.etag, weak_equal) {
            return if reads {
                Outcome::NotModified
            } else {
                Outcome::PreconditionFailed
            };
        }
    } else if let (true, Some(date), Some(modified)) = (
        reads,
        conditions
            .if_modified_since
            .and_then(|d| date::parse(d, now)),
        current.last_modified,
    ) && modified <= date
    {
        return Outcome::NotModified;
    }
    match conditions.range {
        Some(range)
            if method == Method::Get
                && conditions
                    .if_range
                    .is_none_or(|validator| range_applies(validator, current, now)) =>
        {
            parse_ranges(range, len)
        }
        _ => Outcome::Whole,
    }
}

/// Whether a list of entity tags, or `*`, matches the current one.
fn matches_any(tags: &[u8], current: Option<&[u8]>, equal: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    if trim(tags) == b"*" {
        // Some representation exists, tagged or not.
        return true;
    }
    let Some(current) = current else {
        return false;
    };
    let mut rest = tags;
    // Tags may hold commas, so they are taken by their quotes.
    while let Some(open) = memchr::memchr(b'"', rest) {
        let Some(len) = memchr::memchr(b'"', &rest[open + 1..]) else {
            return false;
        };
        let close = open + 1 + len;
        let start = if rest[..open].ends_with(b"W/") {
            open - 2
        } else {
            open
        };
        if equal(&rest[start..=close], current) {
            return true;
        }
        rest = &rest[close + 1..];
    }
    false
}

/// Strong comparison (RFC 9110 section 8.8.3.2).
fn strong_equal(a: &[u8], b: &[u8]) -> bool {
    a == b && !a.starts_with(b"W/")
}

/// Weak comparison (RFC 9110 section 8.8.3.2).
fn weak_equal(a: &[u8], b: &[u8]) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    opaque(a) == opaque(b)
}

/// Whether If-Range lets a range be (RFC 9110 section 13.1.5).
fn range_applies(validator: &[u8], current: &Validators<'_>, now: u64) -> bool {
    if validator.starts_with(b"\"") || validator.starts_with(b"W/") {
        return current
            .etag
            .is_some_and(|etag| strong_equal(validator, etag));
    }
    // A date is strong only if a second change in the same second can be ruled out, and if it is
    // of one form alone.
    let date = date::parse(validator, now);
    !current.has_forms
        && date.is_some()
        && date == current.last_modified
        && date.is_some_and(|date| date < now)
}

/// Reads a Range header for a file of `len` bytes (RFC 9110 section 14.1.2). What is malformed, of
/// another unit, or asks for too many or overlapping parts is answered with the whole.
#[must_use]
fn parse_ranges(value: &[u8], len: u64) -> Outcome {
    let Some(specs) = value
        .split_at_checked(6)
        .filter(|(unit, _)| unit.eq_ignore_ascii_case(b"bytes="))
        .map(|(_, specs)| specs)
    else {
        return Outcome::Whole;
    };
    let mut ranges = Ranges {
        count: 0,
        list: [(0, 0); RANGES_MAX],
    };
    for (i, spec) in elements(specs).enumerate() {
        let Some(range) = parse_range(spec, len) else {
            return Outcome::Whole;
        };
        if i >= RANGES_MAX {
            return Outcome::Whole;
        }
        if let Some(range) = range {
            let overlaps = |other: &(u64, u64)| range.0 <= other.1 && other.0 <= range.1;
            if ranges.as_slice().iter().any(overlaps) {
                return Outcome::Whole;
            }
            ranges.list[ranges.count] = range;
            ranges.count += 1;
        }
    }
    if ranges.count == 0 {
        Outcome::Unsatisfiable
    } else {
        Outcome::Parts(ranges)
    }
}

/// One range: nothing if malformed, `Some(None)` if it lies outside of the file.
fn parse_range(spec: &[u8], len: u64) -> Option<Option<(u64, u64)>> {
    let dash = spec.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        let suffix = position(last)?;
        return Some((suffix > 0 && len > 0).then(|| (len.saturating_sub(suffix), len - 1)));
    }
    let first = position(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        position(last)?
    };
    if first > last {
        return None;
    }
    Some((first < len).then(|| (first, last.min(len - 1))))
}

/// A position; one too large for 64 bits is past the end of any file.
fn position(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| decimal(digits).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::{HeadLimits, parse_head};

    const NOW: u64 = 1_700_000_000;
    const MODIFIED: u64 = 784_111_777;
    const AT: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";

    fn outcome(method: Method, conditions: Conditions<'_>) -> Outcome {
        let current = Validators {
            etag: Some(b"\"v,1\""),
            last_modified: Some(MODIFIED),
            has_forms: false,
        };
        evaluate(method, &conditions, &current, 100, NOW)
    }

    fn parts(list: &[(u64, u64)]) -> Outcome {
        let mut ranges = Ranges {
            count: list.len(),
            list: [(0, 0); RANGES_MAX],
        };
        ranges.list[..list.len()].copy_from_slice(list);
        Outcome::Parts(ranges)
    }

    #[test]
    fn entity_tags() {
        use Outcome::*;
        for (tags, match_outcome, none_match_outcome) in [
            ("\"v,1\"", Whole, NotModified),
            ("*", Whole, NotModified),
            ("W/\"v,1\"", PreconditionFailed, NotModified),
            ("\"a\", \"v,1\"", Whole, NotModified),
            ("\"a\" ,W/\"v,1\"", PreconditionFailed, NotModified),
            ("\"v\"", PreconditionFailed, Whole),
            ("\"v,1", PreconditionFailed, Whole),
            ("v,1", PreconditionFailed, Whole),
            ("", PreconditionFailed, Whole),
        ] {
            let tags = Some(tags.as_bytes());
            let if_match = Conditions {
                if_match: tags,
                ..Conditions::default()
            };
            let if_none_match = Conditions {
                if_none_match: tags,
                ..Conditions::default()
            };
            assert_eq!(outcome(Method::Get, if_match), match_outcome, "{tags:?}");
            assert_eq!(outcome(Method::Head, if_none_match), none_match_outcome);
            let put = outcome(Method::Put, if_none_match);
            let expected = if none_match_outcome == NotModified {
                PreconditionFailed
            } else {
                Whole
            };
            assert_eq!(put, expected, "{tags:?}");
        }
    }

    #[test]
    fn repeated_lines_are_one_list() {
        for (lines, expected) in [
            (
                "If-None-Match: \"a\"\r\nIf-None-Match: \"v,1\"\r\n",
                Outcome::NotModified,
            ),
            (
                "If-None-Match: \"v,1\", \"b\"\r\nif-none-match: W/\"a\"\r\n",
                Outcome::NotModified,
            ),
            (
                "If-None-Match: W/\"a\"\r\nIf-None-Match:\r\nIf-None-Match: W/\"v,1\"\r\n",
                Outcome::NotModified,
            ),
            (
                "If-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\nX: \"v,1\"\r\n",
                Outcome::Whole,
            ),
            (
                "If-None-Match: \"a\"\r\nX: \"v,1\"\r\nIf-None-Match: \"b\"\r\n",
                Outcome::Whole,
            ),
            ("If-Match: \"a\"\r\nIf-Match: \"v,1\"\r\n", Outcome::Whole),
            (
                "If-Match: \"a\"\r\nIf-Match: \"b\"\r\n",
                Outcome::PreconditionFailed,
            ),
        ] {
            let bytes = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
            let mut head = RequestHead::new();
            parse_head(&mut head, bytes.as_bytes(), &HeadLimits::default()).unwrap();
            let conditions = Conditions::of(&head, bytes.as_bytes());
            assert_eq!(outcome(Method::Get, conditions), expected, "{lines}");
        }
    }

    #[test]
    fn dates() {
        use Outcome::*;
        for (date, since, unmodified) in [
            (AT, NotModified, Whole),
            (BEFORE, Whole, PreconditionFailed),
            (b"yesterday".as_slice(), Whole, Whole),
        ] {
            let if_since = Conditions {
                if_modified_since: Some(date),
                ..Conditions::default()
            };
            assert_eq!(outcome(Method::Get, if_since), since);
            assert_eq!(outcome(Method::Post, if_since), Whole);
            let if_unmodified = Conditions {
                if_unmodified_since: Some(date),
                ..Conditions::default()
            };
            assert_eq!(outcome(Method::Get, if_unmodified), unmodified);
        }
    }

    #[test]
    fn tags_outrank_dates() {
        let conditions = Conditions {
            if_match: Some(b"\"v,1\""),
            if_unmodified_since: Some(BEFORE),
            if_none_match: Some(b"\"x\""),
            if_modified_since: Some(AT),
            ..Conditions::default()
        };
        assert_eq!(outcome(Method::Get, conditions), Outcome::Whole);
    }

    #[test]
    fn if_range() {
        let part = parts(&[(0, 9)]);
        for (validator, expected) in [
            (b"\"v,1\"".as_slice(), part),
            (b"W/\"v,1\"", Outcome::Whole),
            (b"\"x\"", Outcome::Whole),
            (AT, part),
            (BEFORE, Outcome::Whole),
            (b"", Outcome::Whole),
        ] {
            let conditions = Conditions {
                if_range: Some(validator),
                range: Some(b"bytes=0-9"),
                ..Conditions::default()
            };
            assert_eq!(outcome(Method::Get, conditions), expected);
            assert_eq!(outcome(Method::Head, conditions), Outcome::Whole);
            let one_of_several = Validators {
                etag: Some(b"\"v,1\""),
                last_modified: Some(MODIFIED),
                has_forms: true,
            };
            let expected = match validator {
                AT => Outcome::Whole,
                _ => expected,
            };
            let outcome = evaluate(Method::Get, &conditions, &one_of_several, 100, NOW);
            assert_eq!(outcome, expected);
        }
    }

    #[test]
    fn ranges() {
        use Outcome::*;
        for (value, expected) in [
            ("bytes=0-0", parts(&[(0, 0)])),
            ("Bytes=0-", parts(&[(0, 99)])),
            ("bytes=90-1000", parts(&[(90, 99)])),
            ("bytes=-5", parts(&[(95, 99)])),
            ("bytes=-500", parts(&[(0, 99)])),
            ("bytes=0-1, 4-5 ,-1", parts(&[(0, 1), (4, 5), (99, 99)])),
            ("bytes=200-300,4-5", parts(&[(4, 5)])),
            ("bytes=0-99999999999999999999", parts(&[(0, 99)])),
            ("bytes=100-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=99999999999999999999-", Unsatisfiable),
            ("bytes=0-5,3-9", Whole),
            ("bytes=5-4", Whole),
            ("bytes=a-b", Whole),
            ("bytes=-", Whole),
            ("bytes=", Whole),
            ("bytes=5", Whole),
            ("bytes 0-5", Whole),
            ("lines=0-5", Whole),
            ("bytes=0-5,", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16", Whole),
            ("", Whole),
        ] {
            assert_eq!(parse_ranges(value.as_bytes(), 100), expected, "{value}");
        }
        assert_eq!(parse_ranges(b"bytes=0-", 0), Unsatisfiable);
        assert_eq!(parse_ranges(b"bytes=-5", 0), Unsatisfiable);
    }
}
