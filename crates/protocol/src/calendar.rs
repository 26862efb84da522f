//! Days as numbers and as dates of the Gregorian calendar, in both directions (Howard Hinnant's
//! civil calendar arithmetic).
//!
//! Days are counted from 1 March of year 0, in eras of 400 years: a leap day is the last of its
//! year, which makes both directions formulas. What came before the calendar was made is counted as
//! if it had been.

/// Days in an era.
const ERA: i64 = 146_097;

/// Days from 0000-03-01 to 1970-01-01.
const MARCH_TO_EPOCH: i64 = 719_468;

/// Year, month (1 to 12) and day of the month (from 1) of a day, counted from 1970-01-01.
///
/// ```
/// use rhythm_protocol::calendar::date_of;
/// assert_eq!(date_of(0), (1970, 1, 1));
/// assert_eq!(date_of(11_016), (2000, 2, 29));
/// ```
#[inline]
#[must_use]
pub const fn date_of(days: i64) -> (i64, u32, u32) {
    let days = days + MARCH_TO_EPOCH;
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA) as u32);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era as i64 + (month <= 2) as i64;
    (year, month, day)
}

/// The day, counted from 1970-01-01, of a year, a month (1 to 12) and a day of the month (from 1).
/// A day that the month does not have is one of the next.
#[inline]
#[must_use]
pub const fn day_of(year: i64, month: u32, day: u32) -> i64 {
    let year = year - (month <= 2) as i64;
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400) as u32);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * ERA + of_era as i64 - MARCH_TO_EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (-401, 1, 1);
        for days in day_of(year, month, day).. {
            assert_eq!(date_of(days), (year, month, day));
            assert_eq!(day_of(year, month, day), days);
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
            if year == 10_000 {
                break;
            }
        }
        assert_eq!(date_of(-719_468), (0, 3, 1));
    }
}
