//! Pieces of header values: tokens, lists, lengths, and what the framing headers say.

use crate::scan::{ALPHANUMERIC, ByteSet};

/// Characters of a token (RFC 9110 section 5.6.2): methods, header names, transfer codings.
pub(crate) const TOKEN: ByteSet = ALPHANUMERIC.or(ByteSet::new(b"!#$%&'*+-.^_`|~"));

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
pub const fn is_token(bytes: &[u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() && TOKEN.contains(bytes[at]) {
        at += 1;
    }
    at > 0 && at == bytes.len()
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
    /// Adds a line's codings; false where they are malformed, name `chunked` twice or something
    /// after it (RFC 9112 section 6.1).
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
    upgrade: bool,
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
            self.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    /// Whether another protocol is asked for, or spoken from now on (RFC 9110 section 7.8).
    pub(crate) fn upgrades(self) -> bool {
        self.upgrade
    }

    /// Whether the connection outlives the message, of HTTP/1.`minor`.
    pub(crate) fn persists(self, minor: u8) -> bool {
        !self.close && (minor >= 1 || self.keep_alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
