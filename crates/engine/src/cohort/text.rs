//! How values look as text: numbers and truth values as MiniJinja prints them.

use rhythm_protocol::calendar::date_of;
use std::io::Write;

/// Appends an integer in decimal.
#[inline]
pub fn print_int(value: i64, to: &mut Vec<u8>) {
    to.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a float as MiniJinja prints it: always with a point.
pub fn print_float(value: f64, to: &mut Vec<u8>) {
    if value.is_nan() {
        to.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        to.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
    } else {
        let start = to.len();
        // Writing to a Vec cannot fail.
        let _ = write!(to, "{value}");
        if !to[start..].contains(&b'.') {
            to.extend_from_slice(b".0");
        }
    }
}

/// A truth value as MiniJinja prints it.
pub fn print_bool(value: bool) -> &'static [u8] {
    if value { b"True" } else { b"False" }
}

/// Appends a point in time, microseconds since 1970 in UTC, as `2026-01-15 12:30:00`, with a
/// fraction of six digits if there is one.
pub(super) fn print_timestamp(micros: i64, to: &mut Vec<u8>) {
    const DAY: i64 = 86_400;
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to a Vec cannot fail.
    let _ = write!(
        to,
        "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
    );
    if fraction != 0 {
        let _ = write!(to, ".{fraction:06}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time() {
        for (micros, expected) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59.999999"),
            (951_782_400_000_000, "2000-02-29 00:00:00"),
            (1_768_480_200_000_001, "2026-01-15 12:30:00.000001"),
            (-62_167_219_200_000_000, "0000-01-01 00:00:00"),
            (4_107_542_399_000_000, "2100-02-28 23:59:59"),
            (4_107_542_400_000_000, "2100-03-01 00:00:00"),
        ] {
            let mut text = Vec::new();
            print_timestamp(micros, &mut text);
            assert_eq!(String::from_utf8_lossy(&text), expected);
        }
    }
}
