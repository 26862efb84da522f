//! Numbers as memcached reads them: as C's `strtoul` and its family, then checked by hand.
//!
//! Blanks may stand in front and one behind, whatever follows it; a sign may; and what does not
//! fit the type wanted is cut to it, unless it does not even fit 64 bits. Clients rely on some of
//! it (`incr` of a value padded with spaces), and the rest is kept so that the same line means the
//! same here.

/// What C's `isspace` takes for a blank.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Sign and magnitude, if the text begins with a number that ends at a blank, at a zero byte or at
/// the end. `None` for the magnitude: it needs more than 64 bits.
fn scan(text: &[u8]) -> Option<(bool, Option<u64>)> {
    let mut rest = text.iter().copied().skip_while(|byte| is_blank(*byte));
    let mut byte = rest.next();
    let is_negative = byte == Some(b'-');
    if matches!(byte, Some(b'-' | b'+')) {
        byte = rest.next();
    }
    let mut magnitude = Some(u64::from(byte?.wrapping_sub(b'0')));
    if magnitude > Some(9) {
        return None;
    }
    loop {
        match rest.next() {
            Some(digit @ b'0'..=b'9') => {
                let digit = u64::from(digit - b'0');
                magnitude = magnitude
                    .and_then(|value| value.checked_mul(10))
                    .and_then(|value| value.checked_add(digit));
            }
            None | Some(0) => return Some((is_negative, magnitude)),
            Some(end) if is_blank(end) => return Some((is_negative, magnitude)),
            Some(_) => return None,
        }
    }
}

/// A number of 64 bits without sign. One with a minus counts from the other end, as in C, where
/// that makes it look positive.
pub(crate) fn unsigned64(text: &[u8]) -> Option<u64> {
    let (is_negative, magnitude) = scan(text)?;
    let magnitude = magnitude?;
    let value = match is_negative {
        true => magnitude.wrapping_neg(),
        false => magnitude,
    };
    // Only large ones are suspected, and then a minus anywhere in the text convicts.
    let end = text.iter().position(|byte| *byte == 0);
    let text = &text[..end.unwrap_or(text.len())];
    let is_suspect = (value as i64) < 0 && text.contains(&b'-');
    (!is_suspect).then_some(value)
}

/// The lowest 32 bits of a number of 64 without sign.
pub(crate) fn unsigned32(text: &[u8]) -> Option<u32> {
    unsigned64(text).map(|value| value as u32)
}

/// The lowest 32 bits of a number of 64 with a sign.
pub(crate) fn signed32(text: &[u8]) -> Option<i32> {
    let (is_negative, magnitude) = scan(text)?;
    let magnitude = magnitude?;
    match is_negative {
        true if magnitude <= 1 << 63 => Some(magnitude.wrapping_neg() as i32),
        false if magnitude < 1 << 63 => Some(magnitude as i32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_c() {
        let cases: &[(&str, Option<u64>, Option<i32>)] = &[
            ("0", Some(0), Some(0)),
            ("12", Some(12), Some(12)),
            ("+12", Some(12), Some(12)),
            (" \t12", Some(12), Some(12)),
            ("12\tand more", Some(12), Some(12)),
            ("12 and more", Some(12), Some(12)),
            ("12\0x", Some(12), Some(12)),
            ("12x", None, None),
            ("", None, None),
            ("-", None, None),
            ("+-1", None, None),
            ("x", None, None),
            ("-1", None, Some(-1)),
            ("-0", Some(0), Some(0)),
            ("4294967297", Some(4_294_967_297), Some(1)),
            ("18446744073709551615", Some(u64::MAX), None),
            ("18446744073709551616", None, None),
            ("-18446744073709551615", Some(1), None),
            ("18446744073709551615\t-", None, None),
            ("9223372036854775807", Some(i64::MAX as u64), Some(-1)),
            ("9223372036854775808", Some(1 << 63), None),
            ("-9223372036854775808", None, Some(0)),
            ("99999999999999999999999999", None, None),
        ];
        for (text, unsigned, signed) in cases {
            assert_eq!(unsigned64(text.as_bytes()), *unsigned, "{text:?}");
            assert_eq!(signed32(text.as_bytes()), *signed, "{text:?}");
        }
        assert_eq!(unsigned32(b"4294967296"), Some(0));
    }
}
