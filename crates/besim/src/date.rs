//! Days as numbers, `YYYY-MM-DD` as text.

use crate::money::{ASCII_ZEROS, eight_digits};
use core::fmt;
use rhythm_protocol::calendar;

/// A day of the Gregorian calendar from 1970-01-01 to 9999-12-31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    days: u32,
}

/// 9999-12-31.
const DAYS_MAX: u32 = 2_932_896;

impl Date {
    /// The day that is `days` after 1970-01-01; the last one there is if that is past it.
    #[must_use]
    pub const fn from_days(days: u32) -> Date {
        Date {
            days: if days < DAYS_MAX { days } else { DAYS_MAX },
        }
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub const fn days(self) -> u32 {
        self.days
    }

    /// The day of this year, month and day of the month, if there is one from 1970 on.
    #[must_use]
    pub(crate) const fn from_civil(year: u32, month: u32, day: u32) -> Option<Date> {
        if year < 1970 || year > 9999 || month == 0 || month > 12 || day == 0 || day > 31 {
            return None;
        }
        let date = Date {
            days: calendar::day_of(year as i64, month, day) as u32,
        };
        // A day the month does not have comes back as one of the next month.
        if date.civil().2 == day {
            Some(date)
        } else {
            None
        }
    }

    /// Year, month and day of the month.
    #[must_use]
    pub(crate) const fn civil(self) -> (u32, u32, u32) {
        let (year, month, day) = calendar::date_of(self.days as i64);
        (year as u32, month, day)
    }

    /// As `YYYY-MM-DD`.
    #[must_use]
    pub const fn text(self) -> [u8; 10] {
        let (year, month, day) = self.civil();
        let [y0, y1, y2, y3, m0, m1, d0, d1] =
            (eight_digits(year * 10_000 + month * 100 + day) | ASCII_ZEROS).to_le_bytes();
        [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1]
    }

    /// The day that `YYYY-MM-DD` names, if it exists and is not before 1970.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Date> {
        let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text else {
            return None;
        };
        let number = |digits: &[u8]| {
            digits.iter().try_fold(0, |sum: u32, digit| {
                digit
                    .is_ascii_digit()
                    .then(|| sum * 10 + u32::from(digit - b'0'))
            })
        };
        Date::from_civil(
            number(&[y0, y1, y2, y3])?,
            number(&[m0, m1])?,
            number(&[d0, d1])?,
        )
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..=DAYS_MAX {
            let date = Date::from_days(days);
            assert_eq!(date.civil(), (year, month, day));
            assert_eq!(Date::from_civil(year, month, day), Some(date));
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u32::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
        assert_eq!(Date::from_days(u32::MAX).days(), DAYS_MAX);
    }

    #[test]
    fn text_comes_back_and_nothing_else_is_read() {
        let date = Date::parse(b"2024-02-29").unwrap();
        assert_eq!(&date.text(), b"2024-02-29");
        assert_eq!(date.to_string(), "2024-02-29");
        for bad in [
            "2023-02-29",
            "2024-00-01",
            "2024-13-01",
            "2024-01-00",
            "2024-04-31",
            "1969-12-31",
            "0000-01-01",
            "2024-1-01",
            "2024-01-1",
            "2024/01/01",
            "+024-01-01",
            "2024-01-01 ",
            "",
            "20240101",
        ] {
            assert_eq!(Date::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
