//! Amounts of money: cents, written `1234.56`.

use core::fmt;

/// An amount in cents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cents(pub i64);

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Two digits.
#[inline(always)]
const fn pair(value: u32) -> [u8; 2] {
    PAIRS[(value % 100) as usize]
}

impl Cents {
    /// What `digits`, or `digits.d`, or `digits.dd` says: at most 12 digits before the point, as on a form.
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
        match u32::try_from(self.0) {
            Ok(cents) => {
                let (text, start) = small(cents);
                out.extend_from_slice(&text[start..]);
            }
            Err(_) => out.extend_from_slice(self.to_string().as_bytes()),
        }
    }
}

/// The text of an amount of up to 32 bits, in the end of the array from the offset on: eight digits and more only where needed.
#[inline(always)]
fn small(cents: u32) -> ([u8; 12], usize) {
    let mut text = *b"000000000.00";
    text[10..12].copy_from_slice(&pair(cents));
    let mut whole = cents / 100;
    let mut start = 9;
    while whole >= 10 {
        start -= 2;
        text[start..start + 2].copy_from_slice(&pair(whole));
        whole /= 100;
    }
    if whole > 0 || start == 9 {
        start -= 1;
        text[start] = b'0' + whole as u8;
    }
    (text, start)
}

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:02}", cents / 100, cents % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_agree() {
        let mut values = vec![
            0,
            1,
            9,
            10,
            99,
            100,
            999,
            1000,
            99_999,
            100_000,
            -7,
            -100,
            i64::MIN,
            i64::MAX,
        ];
        for shift in 0..40 {
            values.extend([(1 << shift) - 1, 1 << shift, (1 << shift) + 1]);
        }
        values.extend((0..10).flat_map(|n| [10_i64.pow(n) - 1, 10_i64.pow(n)]));
        for value in values {
            let mut out = Vec::new();
            Cents(value).write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), Cents(value).to_string());
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
