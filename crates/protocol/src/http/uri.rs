//! What targets, forms and cookies carry (RFC 3986, RFC 6265 section 4.2, HTML's form encoding).
//!
//! Parts are split before they are decoded, so an encoded separator is data: `%2F` in a path
//! segment is a slash in a parameter's value, never a new segment.

use super::head::trim;
use crate::scan;
use memchr::memchr;

/// What is wrong with an encoded text; all answer 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum UriError {
    /// A `%` that two hex digits do not follow.
    #[error("invalid percent-encoding")]
    Escape,
    /// A NUL, encoded or not.
    #[error("NUL in decoded text")]
    Nul,
    /// Decoded bytes that are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// A path with `..` above its root, or a segment that cannot name a file.
    #[error("path not allowed")]
    Path,
}

/// Appends `encoded` to `out` with percent-escapes decoded; a `+` stays one. For paths.
///
/// # Errors
/// For bad escapes and NULs; `out` then ends in a part of the text.
pub fn decode(encoded: &[u8], out: &mut Vec<u8>) -> Result<(), UriError> {
    decode_with(encoded, out, false)
}

/// Appends `encoded` to `out` with percent-escapes decoded and `+` as a space. For queries and
/// forms.
///
/// # Errors
/// For bad escapes and NULs; `out` then ends in a part of the text.
pub fn decode_form(encoded: &[u8], out: &mut Vec<u8>) -> Result<(), UriError> {
    decode_with(encoded, out, true)
}

/// `encoded` decoded as [`decode_form`] does, by itself where nothing in it is encoded and else in
/// `memory`.
///
/// # Errors
/// For bad escapes and NULs.
#[inline]
pub fn form_value<'a>(encoded: &'a [u8], memory: &'a mut Vec<u8>) -> Result<&'a [u8], UriError> {
    if scan::encoded(encoded).is_none() {
        return Ok(encoded);
    }
    memory.clear();
    decode_form(encoded, memory)?;
    Ok(memory)
}

/// Appends `encoded` to `out` with percent-escapes decoded, whatever they stand for: NUL, too. For
/// values that were encoded to be carried and mean no text by themselves.
///
/// # Errors
/// For bad escapes; `out` then ends in a part of the bytes.
pub fn decode_bytes(encoded: &[u8], out: &mut Vec<u8>) -> Result<(), UriError> {
    let mut rest = encoded;
    while let Some(at) = memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let [high, low, after @ ..] = &rest[at + 1..] else {
            return Err(UriError::Escape);
        };
        let byte = hex(*high).zip(hex(*low));
        out.push(
            byte.map(|(high, low)| high << 4 | low)
                .ok_or(UriError::Escape)?,
        );
        rest = after;
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn decode_with(encoded: &[u8], out: &mut Vec<u8>, plus_is_space: bool) -> Result<(), UriError> {
    let mut rest = encoded;
    out.reserve(rest.len());
    loop {
        let plain = scan::encoded(rest).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..plain]);
        match rest.get(plain..) {
            None | Some([]) => return Ok(()),
            Some([0, ..]) => return Err(UriError::Nul),
            Some([b'+', after @ ..]) => {
                out.push(if plus_is_space { b' ' } else { b'+' });
                rest = after;
            }
            Some([_, high, low, after @ ..]) => {
                match (hex(*high), hex(*low)) {
                    (Some(0), Some(0)) => return Err(UriError::Nul),
                    (Some(high), Some(low)) => out.push(high << 4 | low),
                    _ => return Err(UriError::Escape),
                }
                rest = after;
            }
            Some(_) => return Err(UriError::Escape),
        }
    }
}

/// The value of a hex digit.
fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Characters that are themselves everywhere in a URI (RFC 3986 section 2.3).
const UNRESERVED: scan::ByteSet = scan::ALPHANUMERIC.or(scan::ByteSet::new(b"-._~"));

/// Appends `text` to `out` with everything but unreserved characters percent-encoded, so that
/// nothing in it can act as a separator.
#[inline]
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    encode_but(UNRESERVED, text, out);
}

/// Appends `text` to `out` with everything but these characters percent-encoded.
pub fn encode_but(kept: scan::ByteSet, text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        if kept.contains(*byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        }
    }
}

/// `bytes` as text.
///
/// # Errors
/// When they are not UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str, UriError> {
    core::str::from_utf8(bytes).map_err(|_| UriError::NotUtf8)
}

/// Whether this can be the name of a host, without a port: letters, digits, `-`, `_` and `.`.
pub fn is_host_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.bytes().all(is_part)
}

/// The segments of a path, not decoded: what stands between its slashes after the first.
pub fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.strip_prefix(b"/")
        .unwrap_or(path)
        .split(|byte| *byte == b'/')
}

/// Appends the relative name of the file that `path` asks for: segments decoded, `.` and empty ones
/// left out, `..` resolved. It ends in a slash (or is empty) when the path names a folder.
///
/// # Errors
/// For bad escapes, for `..` above the root, and for segments with an encoded slash, a backslash or
/// a NUL.
pub fn file_path(path: &[u8], out: &mut Vec<u8>) -> Result<(), UriError> {
    let base = out.len();
    let mut segments = segments(path).peekable();
    while let Some(segment) = segments.next() {
        let start = out.len();
        decode(segment, out)?;
        let is_last = segments.peek().is_none();
        match &out[start..] {
            b"" | b"." => out.truncate(start),
            b".." => {
                // Back over the segment before, which ends in a slash.
                let Some(parent) = out[base..start].strip_suffix(b"/") else {
                    return Err(UriError::Path);
                };
                let parent_start = memchr::memrchr(b'/', parent).map_or(0, |slash| slash + 1);
                out.truncate(base + parent_start);
            }
            name if name.iter().any(|byte| matches!(byte, b'/' | b'\\')) => {
                return Err(UriError::Path);
            }
            _ if is_last => {}
            _ => out.push(b'/'),
        }
    }
    Ok(())
}

/// The name-value pairs of a query or form, not decoded. A pair without `=` has an empty value;
/// empty pairs are left out.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    rest: &'a [u8],
}

/// The pairs of `a=1&b=2`.
#[must_use]
pub fn pairs(encoded: &[u8]) -> Pairs<'_> {
    Pairs { rest: encoded }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let pair = take_until(&mut self.rest, b'&');
            if !pair.is_empty() {
                return Some(split_at(pair, b'=').unwrap_or((pair, b"")));
            }
        }
        None
    }
}

/// The cookies of a Cookie header as name and value, without quotes around a value. What has no `=`
/// is left out.
#[derive(Clone, Debug)]
pub struct Cookies<'a> {
    rest: &'a [u8],
}

/// The cookies of a Cookie header.
#[must_use]
pub fn cookies(header: &[u8]) -> Cookies<'_> {
    Cookies { rest: header }
}

impl<'a> Iterator for Cookies<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let pair = take_until(&mut self.rest, b';');
            if let Some((name, value)) = split_at(pair, b'=') {
                return Some((trim(name), cookie_value(value)));
            }
        }
        None
    }
}

/// The value of the first cookie with this name, which must be a token; names are case-sensitive.
#[inline]
#[must_use]
pub fn cookie<'a>(header: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = trim_start(header);
    loop {
        // Only of the cookie wanted is more looked at than its first bytes.
        if let Some(after) = rest.strip_prefix(name)
            && let [b'=', value @ ..] = trim_start(after)
        {
            let end = memchr(b';', value).unwrap_or(value.len());
            return Some(cookie_value(&value[..end]));
        }
        rest = trim_start(&rest[memchr(b';', rest)? + 1..]);
    }
}

/// A cookie's value without white space and quotes around it.
#[inline]
fn cookie_value(value: &[u8]) -> &[u8] {
    match trim(value) {
        [b'"', inner @ .., b'"'] => inner,
        value => value,
    }
}

/// `bytes` without white space at their start.
#[inline]
fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

/// Takes what comes before the next `separator`, and the separator, off `rest`.
#[inline]
fn take_until<'a>(rest: &mut &'a [u8], separator: u8) -> &'a [u8] {
    let (part, after) = split_at(rest, separator).unwrap_or((rest, b""));
    *rest = after;
    part
}

/// What stands before and after the first `separator`.
#[inline]
fn split_at(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr(separator, bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(encoded: &str, plus: bool) -> Result<String, UriError> {
        let mut out = Vec::new();
        decode_with(encoded.as_bytes(), &mut out, plus)?;
        Ok(utf8(&out)?.to_owned())
    }

    #[test]
    fn decodes() {
        assert_eq!(decoded("a%20b+c%2Fd", false).as_deref(), Ok("a b+c/d"));
        assert_eq!(decoded("a%20b+c%2fd%2B", true).as_deref(), Ok("a b c/d+"));
        assert_eq!(decoded("%C3%A9", true).as_deref(), Ok("\u{e9}"));
        for bad in ["%", "%2", "%2g", "%g2", "a%+1", "%%20"] {
            assert_eq!(decoded(bad, true), Err(UriError::Escape), "{bad}");
        }
        assert_eq!(decoded("a%00", true), Err(UriError::Nul));
        assert_eq!(decoded("a\0b", true), Err(UriError::Nul));
        assert_eq!(decoded("%ff", true), Err(UriError::NotUtf8));
        // Overlong forms, a surrogate, a character cut short.
        for bad in [
            "%c0%af",
            "%c0%80",
            "%e0%80%af",
            "%f0%80%80%af",
            "%ed%a0%80",
            "%e2%82",
        ] {
            assert_eq!(decoded(bad, true), Err(UriError::NotUtf8), "{bad}");
        }
        assert_eq!(decoded("%u0041", true), Err(UriError::Escape));
        assert_eq!(decoded("%252e", true).as_deref(), Ok("%2e"));
    }

    #[test]
    fn file_paths() {
        let file = |path: &str| {
            let mut out = b"root/".to_vec();
            file_path(path.as_bytes(), &mut out)?;
            Ok(String::from_utf8_lossy(&out[5..]).into_owned())
        };
        for (path, name) in [
            ("/", ""),
            ("/a.css", "a.css"),
            ("/img/a%20b.png", "img/a b.png"),
            ("/img/", "img/"),
            ("/img//./a", "img/a"),
            ("/img/../a", "a"),
            ("/a/b/../c/..", "a/"),
            ("/a/..", ""),
            ("/%2e%2e/a", "!"),
            ("/..", "!"),
            ("/a/../..", "!"),
            ("/a/../../b", "!"),
            ("/..%2f..%2fetc", "!"),
            ("/a%5c..", "!"),
            ("/...", "..."),
            ("/%2e%2e%2f%2e%2e%2fetc", "!"),
            ("/%2e./a", "!"),
            ("/.%2e/a", "!"),
            ("/a/%2e%2e/b", "b"),
            ("/a/.%2e%2fb", "!"),
            ("/%252e%252e/a", "%2e%2e/a"),
            ("/..;/a", "..;/a"),
            ("/a\\..\\b", "!"),
            ("/%5c%5chost", "!"),
            ("//etc/passwd", "etc/passwd"),
            ("/a/%2fetc", "!"),
        ] {
            let expected = match name {
                "!" => Err(UriError::Path),
                name => Ok(name.to_owned()),
            };
            assert_eq!(file(path), expected, "{path}");
        }
        assert_eq!(file("/a%00"), Err(UriError::Nul));
        assert_eq!(file("/a%zz"), Err(UriError::Escape));
    }

    #[test]
    fn form_pairs() {
        let list: Vec<_> = pairs(b"a=1&&b&c==2&=d&").collect();
        let expected: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"b", b""), (b"c", b"=2"), (b"", b"d")];
        assert_eq!(list, expected);
        assert_eq!(pairs(b"").count(), 0);
    }

    #[test]
    fn cookie_pairs() {
        let header = b"a=1; rhythm_session=xyz; junk; b=\"q\";c=;A=2; a=3";
        assert_eq!(cookie(header, b"rhythm_session"), Some(b"xyz".as_slice()));
        assert_eq!(cookie(header, b"a"), Some(b"1".as_slice()));
        assert_eq!(cookie(header, b"A"), Some(b"2".as_slice()));
        assert_eq!(cookie(header, b"b"), Some(b"q".as_slice()));
        assert_eq!(cookie(header, b"c"), Some(b"".as_slice()));
        assert_eq!(cookie(header, b"junk"), None);
        assert_eq!(cookie(header, b"session"), None);
        assert_eq!(cookies(header).count(), 6);
    }

    proptest! {
        #[test]
        fn encoding_comes_back(text in proptest::collection::vec(1u8.., 0..200)) {
            let mut encoded = Vec::new();
            encode(&text, &mut encoded);
            prop_assert!(encoded.iter().all(|b| UNRESERVED.contains(*b) || *b == b'%'));
            let mut out = Vec::new();
            prop_assert_eq!(decode_form(&encoded, &mut out), Ok(()));
            prop_assert_eq!(out, text);
        }

        #[test]
        fn one_cookie_is_the_first_of_all(header in "[ab=; \t\"]{0,24}", name in "[ab]{1,2}") {
            let first = cookies(header.as_bytes()).find(|cookie| cookie.0 == name.as_bytes());
            let found = cookie(header.as_bytes(), name.as_bytes());
            prop_assert_eq!(found, first.map(|cookie| cookie.1));
        }

        #[test]
        fn file_paths_stay_below(path in "(/|[.]|a|%2e|%2f|%5c){0,12}") {
            let mut out = Vec::new();
            if file_path(path.as_bytes(), &mut out).is_ok() {
                let name = String::from_utf8(out).unwrap();
                prop_assert!(!name.starts_with('/'));
                prop_assert!(name.split('/').all(|part| part != ".." && part != "."));
            }
        }
    }
}
