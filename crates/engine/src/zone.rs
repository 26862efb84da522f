//! Time zones: how far a zone's clocks are ahead of UTC at a time.
//!
//! When a service is loaded, its zone becomes a text: of each change of its clocks when that is,
//! and how many seconds they are ahead from then on, in characters of seven bits each. So whoever
//! prints a date needs no database, and all executors know the same.

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

/// The zone that needs no table.
pub(crate) const UTC: &str = "UTC";

/// Seconds since 1970 at the end of the table, 2438-01-01. Rules that still change lie before, and
/// what clocks do by rules repeats with the calendar.
const END: i64 = 170934 * 86_400;
/// Seconds in 400 years of the calendar, a whole number of weeks.
const CYCLE: i64 = 146_097 * 86_400;

const BITS: usize = 7;
/// Characters of a time, and of an offset.
const TIME: usize = 6;
const OFFSET: usize = 3;
const RECORD: usize = TIME + OFFSET;
/// Seconds are counted from these on, which no time and no offset lies before.
const FIRST_TIME: i64 = -(1 << (BITS * TIME - 1));
const FIRST_OFFSET: i64 = -(1 << (BITS * OFFSET - 1));

/// The table of a zone, by its name in the IANA database; `None` where that has none. That of UTC
/// is empty.
pub(crate) fn table(name: &str) -> Option<String> {
    if name == UTC {
        return Some(String::new());
    }
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    let mut table = String::new();
    let first = zone.to_offset(Timestamp::MIN).seconds();
    record(FIRST_TIME, first, &mut table);
    for change in zone.following(Timestamp::MIN) {
        let at = change.timestamp().as_second();
        if at >= END {
            break;
        }
        record(at, change.offset().seconds(), &mut table);
    }
    Some(table)
}

fn record(at: i64, offset: i32, to: &mut String) {
    let numbers = [
        (at - FIRST_TIME, TIME),
        (i64::from(offset) - FIRST_OFFSET, OFFSET),
    ];
    for (number, length) in numbers {
        let digits = (0..length).rev();
        to.extend(digits.map(|digit| char::from((number >> (BITS * digit)) as u8 & 0x7f)));
    }
}

/// How many seconds a zone's clocks are ahead of UTC, by its table, so many seconds after 1970
/// began in UTC.
pub(crate) fn offset_at(table: &[u8], seconds: i64) -> i64 {
    let cycles = match seconds < END {
        true => 0,
        false => (seconds - END) / CYCLE + 1,
    };
    let seconds = seconds - cycles * CYCLE;
    let (records, _) = table.as_chunks::<RECORD>();
    let number = |digits: &[u8], first: i64| {
        let number = |sum: i64, digit: &u8| (sum << BITS) | i64::from(*digit);
        digits.iter().fold(0, number) + first
    };
    let behind = records.partition_point(|it| number(&it[..TIME], FIRST_TIME) <= seconds);
    let record = behind.checked_sub(1).and_then(|at| records.get(at));
    record.map_or(0, |it| number(&it[TIME..], FIRST_OFFSET))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_ahead_as_the_database_says() {
        let names = [
            "Europe/Berlin",
            "America/New_York",
            "Asia/Kathmandu",
            "Pacific/Apia",
        ];
        for name in names {
            let zone = TimeZoneDatabase::bundled().get(name).expect("it is known");
            let table = table(name).expect("it is known");
            // A prime number of seconds, so that all times of day and of the year come.
            for at in (-70_000_000_000..250_000_000_000).step_by(7_654_321) {
                let time = Timestamp::from_second(at).expect("it is in range");
                let offset = i64::from(zone.to_offset(time).seconds());
                assert_eq!(offset_at(table.as_bytes(), at), offset, "{name} at {time}");
            }
        }
        assert_eq!(table("Europe/Nowhere"), None);
        assert_eq!(offset_at(table(UTC).unwrap_or_default().as_bytes(), 0), 0);
    }
}
