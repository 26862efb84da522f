//! Numbers as memcached reads them: as C's `strtoul` and its family, then checked by hand.
//!
//! Blanks may stand in front and one behind, whatever follows it; a sign may; and what does not
//! fit the type wanted is cut to it, unless it does not even fit 64 bits. Clients rely on some of
//! it (`incr` of a value padded with spaces), and the rest is kept so that the same line means the
//! same here.

/// What C's `isspace` takes for a blank.
pub(super) fn is_blank(byte: u8) -> bool {
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

/// A fraction as C's `strtod` finds it, with a blank behind it or nothing: in decimal or
/// hexadecimal, or in words. One that is not 0 and nearer to it than a normal number, or beyond the
/// largest, is none.
pub(super) fn decimal(text: &[u8]) -> Option<f64> {
    let mut parts = text.split(|byte| is_blank(*byte));
    let text = std::str::from_utf8(parts.find(|part| !part.is_empty())?).ok()?;
    let (sign, magnitude) = match text.as_bytes() {
        [b'-', ..] => (-1.0, &text[1..]),
        [b'+', ..] => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let lower = magnitude.to_ascii_lowercase();
    if lower == "inf" || lower == "infinity" {
        return Some(sign * f64::INFINITY);
    }
    if let Some(rest) = lower.strip_prefix("nan") {
        let inner = rest
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix(')'));
        let is_tag = |tag: &str| {
            tag.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        return (rest.is_empty() || inner.is_some_and(is_tag)).then_some(f64::NAN);
    }
    if !lower.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let (value, is_zero) = match lower.strip_prefix("0x") {
        Some(digits) => hexadecimal(digits)?,
        None => {
            let digits = lower.split('e').next()?;
            let is_zero = !digits.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
            (lower.parse().ok()?, is_zero)
        }
    };
    (is_zero || f64::is_normal(value)).then_some(sign * value)
}

/// What hexadecimal digits, with a point among them and an exponent of two behind them, stand for,
/// and whether that is 0.
fn hexadecimal(text: &str) -> Option<(f64, bool)> {
    let (digits, exponent) = match text.split_once('p') {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let (mut value, mut count) = (0.0, 0);
    for digit in whole.chars().chain(part.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
        count += 1;
    }
    let exponent = exponent.checked_sub(4 * part.len() as i32)?;
    (count > 0).then(|| (value * 2_f64.powi(exponent), value == 0.0))
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

    #[test]
    fn fractions_are_read_as_in_c() {
        for (text, value) in [
            ("2", Some(2.0)),
            ("+.5", Some(0.5)),
            ("-5.", Some(-5.0)),
            ("\t1e2\tand more", Some(100.0)),
            ("0x1", Some(1.0)),
            ("-0X1.8p1", Some(-3.0)),
            ("0x.8", Some(0.5)),
            ("INF", Some(f64::INFINITY)),
            ("-infinity", Some(f64::NEG_INFINITY)),
            ("0e999", Some(0.0)),
            ("1e999", None),
            ("1e-400", None),
            ("1e-310", None),
            ("0x1p9999", None),
            ("0x", None),
            ("0x.", None),
            ("0xg", None),
            ("1e", None),
            ("1e5x", None),
            ("--1", None),
            ("+-1", None),
            ("nanx", None),
            ("nan(", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), value, "{text:?}");
        }
        for text in ["nan", "-NaN", "nan(0x1_a)"] {
            assert!(decimal(text.as_bytes()).is_some_and(f64::is_nan), "{text}");
        }
    }
}
