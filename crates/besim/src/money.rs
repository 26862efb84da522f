//! Amounts of money: cents, written `1234.56`.

use core::fmt;

/// An amount in cents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cents(pub i64);

/// The eight decimal digits of a number below 10^8, one a byte, the first in the lowest byte.
///
/// Halves the number three times within one word: into two numbers of four digits, four of two,
/// eight of one. A multiplication and a shift divide each part (x * 10486 >> 20 is x / 100 for x <
/// 10^4, x * 103 >> 10 is x / 10 for x < 100).
#[inline(always)]
pub(crate) const fn eight_digits(value: u32) -> u64 {
    let fours = (value / 10_000) as u64 | ((value % 10_000) as u64) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - 10 * tens) << 8
}

/// What makes digits in bytes characters.
pub(crate) const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

impl Cents {
    /// What `digits`, or `digits.d`, or `digits.dd` says: at most 12 digits before the point, as on
    /// a form.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Cents> {
        let whole = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, scale) = match (text.len() - whole, text.get(whole)) {
            (0, _) => (&[][..], 100),
            (2, Some(b'.')) => (&text[whole + 1..], 10),
            (3, Some(b'.')) => (&text[whole + 1..], 1),
            _ => return None,
        };
        if whole == 0 || whole > 12 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let value = text[..whole]
            .iter()
            .chain(digits)
            .fold(0, |sum: i64, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Cents(value * scale))
    }

    /// Appends the amount as text, such as `1234.56` or `-0.07`.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        let Ok(cents) = u32::try_from(self.0) else {
            // Rare, and not worth a formatter of its own.
            return out.extend_from_slice(self.to_string().as_bytes());
        };
        let (whole, cents) = (eight_digits(cents / 100), cents % 100);
        // Leading zeros are the lowest zero bytes; the last digit stays.
        let skipped = (whole.trailing_zeros() / 8).min(7) as usize;
        out.extend_from_slice(&(whole | ASCII_ZEROS).to_le_bytes()[skipped..]);
        out.extend_from_slice(&[b'.', b'0' + (cents / 10) as u8, b'0' + (cents % 10) as u8]);
    }
}

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

/// The last `N` decimal digits of a number, at most 16 of them.
#[inline(always)]
pub(crate) const fn digits<const N: usize>(value: u64) -> [u8; N] {
    let high =
        (eight_digits((value / 100_000_000 % 100_000_000) as u32) | ASCII_ZEROS).to_le_bytes();
    let low = (eight_digits((value % 100_000_000) as u32) | ASCII_ZEROS).to_le_bytes();
    let mut text = [0; N];
    let mut i = 0;
    while i < N {
        let place = 16 - N + i;
        text[i] = if place < 8 {
            high[place]
        } else {
            low[place - 8]
        };
        i += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        for (cents, text) in [
            (0, "0.00"),
            (7, "0.07"),
            (100, "1.00"),
            (123_456, "1234.56"),
            (-205, "-2.05"),
        ] {
            let mut out = Vec::new();
            Cents(cents).write(&mut out);
            assert_eq!(out, text.as_bytes());
        }
        for value in
            (0..8).flat_map(|n| [10_u32.pow(n) - 1, 10_u32.pow(n), 90_817_263 % 10_u32.pow(n)])
        {
            let digits = (eight_digits(value) | ASCII_ZEROS).to_le_bytes();
            assert_eq!(digits, format!("{value:08}").as_bytes());
        }
    }

    #[test]
    fn large_amounts() {
        let large = [u32::MAX, u32::MAX - 1, 100_000].map(i64::from);
        for cents in large.into_iter().chain([1 << 32, i64::MAX, i64::MIN]) {
            let mut out = Vec::new();
            Cents(cents).write(&mut out);
            assert_eq!(out, Cents(cents).to_string().as_bytes());
        }
    }

    #[test]
    fn what_forms_send() {
        for (text, cents) in [
            ("0", 0),
            ("12", 1200),
            ("12.5", 1250),
            ("0012.34", 1234),
            ("999999999999.99", 99_999_999_999_999),
        ] {
            assert_eq!(Cents::parse(text.as_bytes()), Some(Cents(cents)), "{text}");
        }
        for bad in [
            "",
            ".5",
            "1.",
            "1.234",
            "-1",
            "+1",
            "1,5",
            "1e3",
            "1234567890123",
            "1.2.",
            "1 ",
            "1.x",
        ] {
            assert_eq!(Cents::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
