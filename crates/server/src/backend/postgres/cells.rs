//! Cells, of the text that the server writes, by the types of their columns; and values, as texts.

use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::program::Type;
use rhythm_protocol::calendar::day_of;
use std::io::Write;

/// Types by the numbers that they have in each database (src/include/catalog/pg_type.dat).
pub(super) mod oid {
    pub(in super::super) const BOOL: u32 = 16;
    pub(in super::super) const BYTEA: u32 = 17;
    pub(in super::super) const INT8: u32 = 20;
    pub(in super::super) const INT2: u32 = 21;
    pub(in super::super) const INT4: u32 = 23;
    pub(in super::super) const OID: u32 = 26;
    pub(in super::super) const FLOAT4: u32 = 700;
    pub(in super::super) const FLOAT8: u32 = 701;
    pub(in super::super) const TIMESTAMP: u32 = 1114;
    pub(in super::super) const TIMESTAMPTZ: u32 = 1184;
    pub(in super::super) const NUMERIC: u32 = 1700;
}

/// Whether a column of this type never is what a page has it as.
pub(super) fn is_never(kind: u32, wanted: Type) -> bool {
    let is_float = matches!(kind, oid::FLOAT4 | oid::FLOAT8);
    let is_other = matches!(kind, oid::BYTEA | oid::TIMESTAMP | oid::TIMESTAMPTZ);
    match wanted {
        Type::Int | Type::Bool => is_float || is_other,
        Type::Float => kind == oid::BOOL || is_other,
        Type::Text => false,
    }
}

/// The cell that a text is. What its type does not have otherwise (`NaN`, `infinity`, days before
/// Christ) stays a text. So does a time with a time zone, whose text says that it is one of UTC:
/// pages print that in their own. `bytes` is room for what is decoded.
pub(super) fn cell<'a>(kind: u32, text: &'a [u8], bytes: &'a mut Vec<u8>) -> Cell<'a> {
    let written = std::str::from_utf8(text).ok();
    let typed = match kind {
        oid::INT2 | oid::INT4 | oid::INT8 | oid::OID => {
            written.and_then(|text| text.parse().ok()).map(Cell::Int)
        }
        oid::BOOL => match text {
            b"t" => Some(Cell::Bool(true)),
            b"f" => Some(Cell::Bool(false)),
            _ => None,
        },
        oid::FLOAT4 | oid::FLOAT8 => written.and_then(|text| text.parse().ok()).map(Cell::Float),
        oid::NUMERIC if text.last().is_some_and(u8::is_ascii_digit) => Some(Cell::Decimal(text)),
        oid::TIMESTAMP => written.and_then(micros).map(Cell::Timestamp),
        oid::TIMESTAMPTZ if text.ends_with(b"+00") => {
            bytes.clear();
            bytes.extend_from_slice(text);
            // As RFC 3339 has it, for those who read the JSON of a page.
            bytes.extend_from_slice(b":00");
            Some(Cell::Text(bytes))
        }
        oid::BYTEA => unhex(text, bytes).map(|()| Cell::Bytes(bytes)),
        _ => None,
    };
    typed.unwrap_or(Cell::Text(text))
}

/// Appends a value as a text.
pub(super) fn write(value: Argument<'_>, out: &mut Vec<u8>) {
    match value {
        Argument::Text(text) => out.extend_from_slice(text),
        Argument::Int(value) => {
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        }
        Argument::Bool(value) => out.push(if value { b't' } else { b'f' }),
        // Writing to memory cannot fail.
        Argument::Float(value) => drop(write!(out, "{value:?}")),
    }
}

/// Decodes `\x0aff`.
fn unhex(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let digits = text.strip_prefix(b"\\x")?;
    bytes.clear();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for pair in digits.chunks(2) {
        let &[high, low] = pair else { return None };
        bytes.push((digit(high)? << 4 | digit(low)?) as u8);
    }
    Some(())
}

/// Microseconds since 1970 of `2026-01-15 12:30:00.000001`.
fn micros(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(' ')?;
    let mut date = date.split('-');
    let (year, month, day) = (date.next()?, date.next()?, date.next()?);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.split(':').map(number);
    let (hours, minutes, seconds) = (time.next()??, time.next()??, time.next()??);
    if date.next().is_some() || time.next().is_some() || fraction.len() > 6 {
        return None;
    }
    let (month, day) = (number(month)?, number(day)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = day_of(number(year)?, month as u32, day as u32);
    let fraction = match fraction.len() {
        0 => 0,
        digits => number(fraction)? * 10_i64.pow(6 - digits as u32),
    };
    let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
    seconds.checked_mul(1_000_000)?.checked_add(fraction)
}

/// A number of few digits.
fn number(digits: &str) -> Option<i64> {
    let is_number = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_what_their_columns_are() {
        let text = |text: &'static str| Cell::Text(text.as_bytes());
        for (kind, written, expected) in [
            (oid::INT2, "-7", Cell::Int(-7)),
            (oid::INT8, "9223372036854775807", Cell::Int(i64::MAX)),
            (oid::OID, "4294967295", Cell::Int(4_294_967_295)),
            (oid::BOOL, "t", Cell::Bool(true)),
            (oid::BOOL, "f", Cell::Bool(false)),
            (oid::FLOAT8, "0.1", Cell::Float(0.1)),
            (oid::FLOAT4, "-Infinity", Cell::Float(f64::NEG_INFINITY)),
            (oid::NUMERIC, "-1.50", Cell::Decimal(b"-1.50")),
            (oid::NUMERIC, "NaN", text("NaN")),
            (oid::BYTEA, "\\x00fF", Cell::Bytes(&[0, 255])),
            (
                oid::TIMESTAMP,
                "1970-01-02 00:00:01",
                Cell::Timestamp(86_401_000_000),
            ),
            (
                oid::TIMESTAMPTZ,
                "2026-01-15 12:30:00.25+00",
                text("2026-01-15 12:30:00.25+00:00"),
            ),
            (oid::TIMESTAMPTZ, "-infinity", text("-infinity")),
            (
                oid::TIMESTAMP,
                "2026-01-15 12:30:00.25",
                Cell::Timestamp(1_768_480_200_250_000),
            ),
            (
                oid::TIMESTAMP,
                "1969-12-31 23:59:59.999999",
                Cell::Timestamp(-1),
            ),
            (oid::TIMESTAMP, "infinity", text("infinity")),
            (
                oid::TIMESTAMP,
                "0044-03-15 00:00:00 BC",
                text("0044-03-15 00:00:00 BC"),
            ),
            (1082, "2026-01-15", text("2026-01-15")),
            (25, "t", text("t")),
        ] {
            assert_eq!(cell(kind, written.as_bytes(), &mut Vec::new()), expected);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_a_cell(text in ".*", digits in "[-0-9:. +]*") {
            use oid::{BOOL, BYTEA, FLOAT8, INT8, NUMERIC, TIMESTAMP};
            for kind in [BOOL, BYTEA, INT8, FLOAT8, NUMERIC, TIMESTAMP] {
                for text in [&text, &digits] {
                    if let Cell::Text(same) = cell(kind, text.as_bytes(), &mut Vec::new()) {
                        prop_assert_eq!(same, text.as_bytes());
                    }
                }
            }
        }
    }
}
