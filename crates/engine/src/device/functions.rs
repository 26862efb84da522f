//! The functions of the page language on single values, as MiniJinja defines them.
//!
//! Every executor calls these where a value is rare or the work is not worth a kernel; what is hot
//! has a batched form beside it in [`host`](super::host), tested against these.

use crate::cohort::LaneError;
pub use crate::cohort::{print_bool, print_float, print_int};
use crate::program::{Arithmetic, Comparison, Escape, TextFunction};
use md5::{Digest, Md5};
use rhythm_protocol::html;
use rhythm_protocol::http::uri;
use rhythm_protocol::scan::{ALPHANUMERIC, ByteSet};
use std::cmp::Ordering;
use std::io::Write;

/// Integer arithmetic; a result beyond 64 bits fails the lane.
#[inline]
pub fn int(operator: Arithmetic, a: i64, b: i64) -> Result<i64, LaneError> {
    let result = match operator {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Remainder if b == 0 => {
            return Err(LaneError::DivisionByZero);
        }
        // The compiler converts the operands of `/` to floats, so this arm serves `//`.
        Arithmetic::Divide | Arithmetic::FloorDivide => a
            .checked_div(b)
            .map(|q| q - i64::from(a % b != 0 && (a < 0) != (b < 0))),
        Arithmetic::Remainder => {
            let r = a.wrapping_rem(b);
            Some(if r != 0 && (r < 0) != (b < 0) {
                r + b
            } else {
                r
            })
        }
        Arithmetic::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
    };
    result.ok_or(LaneError::Overflow)
}

/// Float arithmetic.
pub fn float(operator: Arithmetic, a: f64, b: f64) -> Result<f64, LaneError> {
    Ok(match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Remainder if b == 0.0 => {
            return Err(LaneError::DivisionByZero);
        }
        Arithmetic::Divide => a / b,
        Arithmetic::FloorDivide => floor_division(a, b).0,
        Arithmetic::Remainder => floor_division(a, b).1,
        Arithmetic::Power if a == 0.0 && b < 0.0 => return Err(LaneError::DivisionByZero),
        Arithmetic::Power => a.powf(b),
    })
}

/// Quotient rounded toward negative infinity, and the remainder with the divisor's sign, zeros
/// signed as in Python.
fn floor_division(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder == 0.0 {
        remainder = 0f64.copysign(b);
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    let quotient = if quotient == 0.0 {
        0f64.copysign(a / b)
    } else {
        // The division above can end just off the integer it stands for.
        let floor = quotient.floor();
        floor + f64::from(quotient - floor > 0.5)
    };
    (quotient, remainder)
}

/// Compares two floats: equality as IEEE 754 has it, and a total order for the rest.
pub fn floats_hold(comparison: Comparison, a: f64, b: f64) -> bool {
    match comparison {
        Comparison::Equal => a == b,
        Comparison::NotEqual => a != b,
        _ if a == b => comparison.holds(Ordering::Equal),
        _ => comparison.holds(a.total_cmp(&b)),
    }
}

/// A float toward zero as an integer.
pub fn float_to_int(value: f64) -> Result<i64, LaneError> {
    // 2^63 is the first float above i64::MAX.
    if (-(2f64.powi(63))..2f64.powi(63)).contains(&value) {
        Ok(value as i64)
    } else {
        Err(LaneError::Overflow)
    }
}

/// What the `int` filter reads: an integer, or a float's integral part.
pub fn text_to_int(text: &str) -> Result<i64, LaneError> {
    let sign_and_digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !sign_and_digits.is_empty() && sign_and_digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map_err(|_| LaneError::Overflow);
    }
    text_to_float(text).and_then(float_to_int)
}

/// What the `float` filter reads.
pub fn text_to_float(text: &str) -> Result<f64, LaneError> {
    text.parse().map_err(|_| LaneError::NotANumber)
}

/// Appends a text, escaped.
pub fn escape(escape: Escape, text: &[u8], to: &mut Vec<u8>) {
    match escape {
        Escape::None => to.extend_from_slice(text),
        Escape::Html => {
            for &byte in text {
                match html::entity(byte) {
                    Some(entity) => to.extend_from_slice(entity.as_bytes()),
                    None => to.push(byte),
                }
            }
        }
        Escape::Percent => uri::encode(text, to),
        Escape::Header => to.extend(
            text.iter()
                .map(|&b| if b < 0x20 || b == 0x7f { b' ' } else { b }),
        ),
        Escape::Json => {
            for &byte in text {
                json_escape(byte, to);
            }
        }
    }
}

/// Appends a byte of a text as it stands in a string of JSON.
fn json_escape(byte: u8, to: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        0..0x20 | b'<' | b'>' | b'&' | b'\'' => {
            to.extend_from_slice(b"\\u00");
            to.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            return;
        }
        _ => return to.push(byte),
    };
    to.extend([b'\\', short]);
}

/// The length of `text` with `old` replaced by `new`: known before the text is made, so that it can
/// be refused.
pub fn replaced_length(text: &str, old: &str, new: &str) -> usize {
    let times = text.matches(old).count();
    (text.len() - times * old.len()).saturating_add(times.saturating_mul(new.len()))
}

/// Appends `text` with `old` replaced by `new`.
pub fn replace(text: &str, old: &str, new: &str, to: &mut Vec<u8>) {
    let mut done = 0;
    for (start, found) in text.match_indices(old) {
        to.extend_from_slice(&text.as_bytes()[done..start]);
        to.extend_from_slice(new.as_bytes());
        done = start + found.len();
    }
    to.extend_from_slice(&text.as_bytes()[done..]);
}

/// Appends a text in upper case, as [`str::to_uppercase`] makes it.
fn upper(text: &str, to: &mut Vec<u8>) {
    if text.is_ascii() {
        to.extend(text.bytes().map(|byte| byte.to_ascii_uppercase()));
    } else {
        text.chars().for_each(|c| push_all(c.to_uppercase(), to));
    }
}

/// Appends characters. Formatting them takes several times as long.
fn push_all(chars: impl Iterator<Item = char>, to: &mut Vec<u8>) {
    for c in chars {
        to.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Appends a text in lower case, as [`str::to_lowercase`] makes it.
fn lower(text: &str, to: &mut Vec<u8>) {
    if text.is_ascii() {
        to.extend(text.bytes().map(|byte| byte.to_ascii_lowercase()));
    } else if text.contains('\u{3a3}') {
        // What becomes of a capital sigma depends on what stands around it.
        to.extend_from_slice(text.to_lowercase().as_bytes());
    } else {
        text.chars().for_each(|c| push_all(c.to_lowercase(), to));
    }
}

/// What the `urlencode` filter keeps as it is, as MiniJinja's does.
const URL_KEPT: ByteSet = ALPHANUMERIC.or(ByteSet::new(b"-._/"));

/// What a text function gives: a part of its operand, or new text appended to `to`.
pub enum Made {
    /// This range of the operand; nothing was appended.
    Part(std::ops::Range<usize>),
    /// What was appended.
    New,
}

/// Applies a text function.
pub fn text(function: TextFunction, text: &str, to: &mut Vec<u8>) -> Made {
    match function {
        TextFunction::Upper => upper(text, to),
        TextFunction::Lower => lower(text, to),
        TextFunction::Title => {
            let mut starts_word = true;
            for c in text.chars() {
                if matches!(c, '-' | '(' | '{' | '[' | '<') || c.is_whitespace() {
                    push_all([c].into_iter(), to);
                    starts_word = true;
                    continue;
                }
                let is_first = std::mem::take(&mut starts_word);
                match (c.is_ascii(), is_first) {
                    (true, true) => to.push(c.to_ascii_uppercase() as u8),
                    (true, false) => to.push(c.to_ascii_lowercase() as u8),
                    (false, true) => push_all(c.to_uppercase(), to),
                    (false, false) => push_all(c.to_lowercase(), to),
                }
            }
        }
        TextFunction::Capitalize => {
            let mut chars = text.chars();
            if let Some(first) = chars.next() {
                push_all(first.to_uppercase(), to);
                lower(chars.as_str(), to);
            }
        }
        TextFunction::Trim => {
            let start = text.len() - text.trim_start().len();
            return Made::Part(start..start + text.trim().len());
        }
        TextFunction::First => return Made::Part(0..text.chars().next().map_or(0, char::len_utf8)),
        TextFunction::Last => {
            let length = text.chars().next_back().map_or(0, char::len_utf8);
            return Made::Part(text.len() - length..text.len());
        }
        TextFunction::UrlEncode => uri::encode_but(URL_KEPT, text.as_bytes(), to),
        TextFunction::Md5 => {
            for byte in Md5::digest(text.as_bytes()) {
                let _ = write!(to, "{byte:02x}");
            }
        }
        TextFunction::Escape(how) => escape(how, text.as_bytes(), to),
    }
    Made::New
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_toward_negative_infinity() {
        let cases = [
            (7, 2, 3, 1),
            (-7, 2, -4, 1),
            (7, -2, -4, -1),
            (-7, -2, 3, -1),
            (6, -3, -2, 0),
        ];
        for (a, b, quotient, remainder) in cases {
            assert_eq!(int(Arithmetic::FloorDivide, a, b), Ok(quotient));
            assert_eq!(int(Arithmetic::Remainder, a, b), Ok(remainder));
            assert_eq!(
                float(Arithmetic::FloorDivide, a as f64, b as f64),
                Ok(quotient as f64)
            );
            assert_eq!(
                float(Arithmetic::Remainder, a as f64, b as f64),
                Ok(remainder as f64)
            );
        }
        assert_eq!(
            int(Arithmetic::FloorDivide, i64::MIN, -1),
            Err(LaneError::Overflow)
        );
        assert_eq!(int(Arithmetic::Remainder, i64::MIN, -1), Ok(0));
        assert_eq!(
            int(Arithmetic::Remainder, 1, 0),
            Err(LaneError::DivisionByZero)
        );
    }

    #[test]
    fn texts_are_made_as_the_standard_library_makes_them() {
        let texts = (0..=char::MAX as u32)
            .filter_map(char::from_u32)
            .map(String::from);
        let words = [
            "",
            "Hello you",
            "\u{391}\u{3a3} \u{3a3}\u{391}\u{3a3}.",
            "\u{df}a\u{130}",
        ];
        for text in texts.chain(words.map(str::to_owned)) {
            let (mut made, mut expected) = (Vec::new(), String::new());
            upper(&text, &mut made);
            expected += &text.to_uppercase();
            lower(&text, &mut made);
            expected += &text.to_lowercase();
            for (old, new) in [
                ("", "-"),
                (text.as_str(), "x"),
                ("l", ""),
                ("you", "\u{3a3}"),
            ] {
                replace(&text, old, new, &mut made);
                expected += &text.replace(old, new);
            }
            assert_eq!(made, expected.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn prints_as_minijinja() {
        let mut out = Vec::new();
        for value in [1.0, 0.1, -2.5e-7, 1e21, f64::NAN, f64::NEG_INFINITY] {
            print_float(value, &mut out);
            out.push(b' ');
        }
        assert_eq!(
            out,
            b"1.0 0.1 -0.00000025 1000000000000000000000.0 NaN -inf "
        );
    }

    #[test]
    fn reads_numbers_as_the_filters_do() {
        assert_eq!(text_to_int("-42"), Ok(-42));
        assert_eq!(text_to_int("+7"), Ok(7));
        assert_eq!(text_to_int("1e3"), Ok(1000));
        assert_eq!(text_to_int("2.9"), Ok(2));
        assert_eq!(text_to_int("9223372036854775808"), Err(LaneError::Overflow));
        assert_eq!(text_to_int(""), Err(LaneError::NotANumber));
        assert_eq!(text_to_int(" 1"), Err(LaneError::NotANumber));
    }
}
