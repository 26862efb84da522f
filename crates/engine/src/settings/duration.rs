//! Durations as people write them, in files and flags alike: `500us`, `2ms`, `1.5s`, `30 m`, `1h`.

use std::time::Duration;

/// The units and their nanoseconds, largest first.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// What a duration looks like, for those who wrote something else.
pub const FORM: &str = "a number and ns, us, ms, s, m or h, such as \"2ms\" or \"30m\"";

/// Reads a duration; what is less than a nanosecond is dropped. None has more than 2^64
/// nanoseconds, which are 584 years.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse(text: &str) -> Result<Duration, String> {
    read(text).ok_or_else(|| format!("a duration is {FORM}"))
}

fn read(text: &str) -> Option<Duration> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let unit = text.trim_start_matches(is_number);
    let number = &text[..text.len() - unit.len()];
    let unit = unit.trim_start();
    let &(_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let mut nanoseconds = 0;
    if !whole.is_empty() {
        nanoseconds = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    }
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        nanoseconds = nanoseconds.checked_add(place * u64::from(digit - b'0'))?;
    }
    Some(Duration::from_nanos(nanoseconds))
}

/// Writes a duration so that [`parse`] reads the same, in the largest unit that has no fraction.
pub fn format(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    let fits = |(_, unit): &&(&str, u64)| nanoseconds.is_multiple_of(u128::from(*unit));
    // Every number of nanoseconds is a multiple of the last unit.
    let &(name, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[5]);
    format!("{}{name}", nanoseconds / u128::from(unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_units_and_fractions() {
        assert_eq!(parse("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(parse("30 m"), Ok(Duration::from_secs(1800)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("0.000000001s"), Ok(Duration::from_nanos(1)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        for wrong in [
            "",
            "2",
            "5",
            "ms",
            ".s",
            "-1s",
            "-2ms",
            "1d",
            "1.2.3s",
            "2 weeks",
            "99999999999h",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(nanoseconds in any::<u64>(), zeros in 0u32..15) {
            let step = 10u64.pow(zeros);
            let duration = Duration::from_nanos(nanoseconds / step * step);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
