//! HTTP dates (RFC 9110 section 5.6.7): seconds since 1970-01-01T00:00:00Z, to and from text.
//!
//! Written in the one current form (IMF-fixdate), read in all three.

use crate::calendar::{date_of, day_of};

const DAYS: [&[u8]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const LONG_DAYS: [&[u8]; 7] = [
    b"Sunday",
    b"Monday",
    b"Tuesday",
    b"Wednesday",
    b"Thursday",
    b"Friday",
    b"Saturday",
];
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// The last second that has a four-digit year: 9999-12-31T23:59:59Z.
const SECONDS_MAX: u64 = 253_402_300_799;

/// `seconds` since the epoch as IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`; what is past
/// `SECONDS_MAX` counts as that.
#[must_use]
pub fn format(seconds: u64) -> [u8; 29] {
    let seconds = seconds.min(SECONDS_MAX);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days as i64);
    let year = year as u64;
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    // 1970-01-01 was a Thursday.
    text[0..3].copy_from_slice(DAYS[(days + 4) as usize % 7]);
    two_digits(&mut text, 5, day.into());
    text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    two_digits(&mut text, 12, year / 100);
    two_digits(&mut text, 14, year % 100);
    two_digits(&mut text, 17, of_day / 3600);
    two_digits(&mut text, 20, of_day / 60 % 60);
    two_digits(&mut text, 23, of_day % 60);
    text
}

fn two_digits(text: &mut [u8; 29], at: usize, value: u64) {
    text[at] = b'0' + (value / 10 % 10) as u8;
    text[at + 1] = b'0' + (value % 10) as u8;
}

/// Reads an HTTP date in any of its three forms: IMF-fixdate, RFC 850 and asctime. `now` (seconds
/// since the epoch) decides the century of the two-digit years of the second form, which are at
/// most 50 years ahead.
///
/// Nothing for what is malformed, does not exist, names the wrong weekday or is before 1970.
#[must_use]
pub fn parse(text: &[u8], now: u64) -> Option<u64> {
    // Sun, 06 Nov 1994 08:49:37 GMT
    let (date, rest) = text.split_at_checked(17)?;
    let [
        w1,
        w2,
        w3,
        b',',
        b' ',
        d1,
        d2,
        b' ',
        m1,
        m2,
        m3,
        b' ',
        y1,
        y2,
        y3,
        y4,
        b' ',
    ] = date
    else {
        return parse_old(text, now);
    };
    seconds(
        name(&DAYS, &[*w1, *w2, *w3])?,
        number(&[*d1, *d2])?,
        name(&MONTHS, &[*m1, *m2, *m3])?,
        number(&[*y1, *y2, *y3, *y4])?,
        rest.strip_suffix(b" GMT")?,
    )
}

/// The two obsolete forms.
#[cold]
fn parse_old(text: &[u8], now: u64) -> Option<u64> {
    if let Some(comma) = text.iter().position(|byte| *byte == b',') {
        // Sunday, 06-Nov-94 08:49:37 GMT
        let weekday = name(&LONG_DAYS, &text[..comma])?;
        let [
            b' ',
            d1,
            d2,
            b'-',
            m1,
            m2,
            m3,
            b'-',
            y1,
            y2,
            b' ',
            time @ ..,
        ] = &text[comma + 1..]
        else {
            return None;
        };
        let this_year = date_of((now.min(SECONDS_MAX) / 86_400) as i64).0 as u64;
        let mut year = this_year / 100 * 100 + number(&[*y1, *y2])?;
        if year > this_year + 50 {
            year -= 100;
        }
        let month = name(&MONTHS, &[*m1, *m2, *m3])?;
        let time = time.strip_suffix(b" GMT")?;
        return seconds(weekday, number(&[*d1, *d2])?, month, year, time);
    }
    // Sun Nov  6 08:49:37 1994
    let [
        w1,
        w2,
        w3,
        b' ',
        m1,
        m2,
        m3,
        b' ',
        d1,
        d2,
        b' ',
        time @ ..,
        b' ',
        y1,
        y2,
        y3,
        y4,
    ] = text
    else {
        return None;
    };
    let tens = if *d1 == b' ' { b'0' } else { *d1 };
    seconds(
        name(&DAYS, &[*w1, *w2, *w3])?,
        number(&[tens, *d2])?,
        name(&MONTHS, &[*m1, *m2, *m3])?,
        number(&[*y1, *y2, *y3, *y4])?,
        time,
    )
}

/// The parts together, if they are a day and a time that exist; `weekday` and `month` count from 0.
fn seconds(weekday: u64, day: u64, month: u64, year: u64, time: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else {
        return None;
    };
    let (hour, minute, second) = (
        number(&[*h1, *h2])?,
        number(&[*m1, *m2])?,
        number(&[*s1, *s2])?,
    );
    if year < 1970 || day == 0 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let date = (year as i64, month as u32 + 1, day as u32);
    let days = day_of(date.0, date.1, date.2);
    if date_of(days) != date || (days + 4) as u64 % 7 != weekday {
        return None;
    }
    // A leap second is the last second of its minute.
    Some(days as u64 * 86_400 + hour * 3600 + minute * 60 + second.min(59))
}

/// Where `text` is among `names`.
fn name(names: &[&[u8]], text: &[u8]) -> Option<u64> {
    names
        .iter()
        .position(|name| *name == text)
        .map(|index| index as u64)
}

fn number(digits: &[u8]) -> Option<u64> {
    super::head::decimal(digits)
}

/// The Date header's value, formatted once a second.
#[derive(Clone, Debug)]
pub struct DateCache {
    seconds: u64,
    text: [u8; 29],
}

impl DateCache {
    /// A cache of the date at `seconds` since the epoch.
    #[must_use]
    pub fn new(seconds: u64) -> DateCache {
        DateCache {
            seconds,
            text: format(seconds),
        }
    }

    /// Brings it to `seconds` since the epoch.
    #[inline]
    pub fn update(&mut self, seconds: u64) {
        if seconds != self.seconds {
            *self = DateCache::new(seconds);
        }
    }

    /// The second it is at.
    #[inline]
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// The date as IMF-fixdate.
    #[inline]
    #[must_use]
    pub fn text(&self) -> &[u8; 29] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    const NOW: u64 = 1_700_000_000;

    #[test]
    fn reads_all_forms() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes(), NOW), Some(784_111_777), "{text}");
        }
        assert_eq!(
            parse(b"Sat, 31 Dec 2016 23:59:60 GMT", NOW),
            Some(1_483_228_799)
        );
        assert_eq!(
            parse(b"Monday, 06-Nov-34 00:00:00 GMT", NOW).map(|s| date_of((s / 86_400) as i64)),
            Some((2034, 11, 6))
        );
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Mon, 06 Nov 1950 08:49:37 GMT",
            "Sun, 06 Nov 1994  08:49:37 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT",
            "Sun Nov 06 08:49:37 1994 GMT",
            "Sun, 0\u{e9} Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes(), NOW), None, "{text}");
        }
    }

    #[test]
    fn the_cache_follows_time() {
        let mut cache = DateCache::new(0);
        assert_eq!(cache.text(), b"Thu, 01 Jan 1970 00:00:00 GMT");
        cache.update(784_111_777);
        assert_eq!(cache.text(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(format(u64::MAX), *b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    proptest! {
        #[test]
        fn same_as_an_independent_one(seconds in 0..=SECONDS_MAX) {
            let text = format(seconds);
            let theirs = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            prop_assert_eq!(&text[..], theirs.as_bytes());
            prop_assert_eq!(parse(&text, NOW), Some(seconds));
        }

        #[test]
        fn any_bytes_do_not_panic(
            text in "[A-Za-z]{0,9},? ?[0-9A-Za-z :-]{0,30}(GMT)?",
            now in any::<u64>()
        ) {
            let _ = parse(text.as_bytes(), now);
        }
    }
}
