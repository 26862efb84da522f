//! Durations as people type them: `500us`, `2ms`, `1.5s`, `10m`, `1h`.

use std::time::Duration;

/// The units, and how many nanoseconds each has.
const UNITS: [(&str, f64); 6] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Reads a duration.
///
/// # Errors
/// A sentence that says what is expected.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len()
        - text
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
            .len();
    let (number, unit) = text.split_at(digits);
    let nanos = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, nanos)| nanos);
    match (number.parse::<f64>(), nanos) {
        (Ok(number), Some(nanos)) => Ok(Duration::from_nanos((number * nanos) as u64)),
        _ => Err("a duration is a number with a unit: ns, us, ms, s, m or h, as in 2ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units_and_fractions() {
        assert_eq!(parse("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        for wrong in ["", "5", "ms", "-1s", "1 s", "1d", "1.2.3s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
