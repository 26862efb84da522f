//! The time as memcached counts it: in seconds since somewhat before the start.

use rhythm_net::Time;

/// How long before the start the clock began: an item that expired "long ago" can then have an
/// expiry, which is 1.
const HEAD_START: u32 = 62;
/// memcached's `uptime` begins a little above zero for the same reason.
const UPTIME_OFFSET: u32 = 60;
/// Up to so many seconds an expiry is counted from now, beyond it is a Unix time: 30 days.
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;
/// An expiry that has passed.
const PASSED: u32 = 1;

/// When a clock began.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The moment of the start.
    at: Time,
    /// The second of the calendar when it showed the head start.
    unix: u64,
    /// How long before the start that was.
    before: u64,
}

impl Start {
    /// At this moment, in this second of the calendar.
    pub fn new(at: Time, unix: u64) -> Start {
        Start {
            at,
            unix,
            before: 0,
        }
    }

    /// A clock that goes on with this second, where it is one that a clock shows.
    pub(crate) fn going_on(self, second: u32) -> Start {
        let before = u64::from(second.saturating_sub(HEAD_START));
        Start {
            unix: self.unix.saturating_sub(before),
            before,
            ..self
        }
    }

    /// What the clock shows.
    pub fn clock(self, now: Time) -> Clock {
        Clock::new(self.before + now.since(self.at).as_secs(), self.unix)
    }
}

/// What the clock shows in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Now, in seconds; at least 2.
    pub now: u32,
    /// The Unix time of second 0.
    origin: u64,
}

impl Clock {
    /// So many seconds after a start at this Unix time.
    pub fn new(seconds: u64, start_unix: u64) -> Clock {
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX - HEAD_START);
        Clock {
            now: HEAD_START.saturating_add(seconds),
            origin: start_unix.saturating_sub(HEAD_START.into()),
        }
    }

    /// The Unix time.
    pub fn unix(&self) -> u64 {
        self.origin + u64::from(self.now)
    }

    /// Seconds since the start, as `stats` tells them.
    pub(crate) fn uptime(&self) -> u32 {
        self.now - UPTIME_OFFSET
    }

    /// The second at which an item expires, from what a client says: never (0), in so many seconds,
    /// at a Unix time, or (negative) long ago.
    pub(crate) fn expiry(&self, exptime: i64) -> u32 {
        match exptime {
            0 => 0,
            ..0 => PASSED,
            1..=RELATIVE_MAX => self.now.saturating_add(exptime as u32),
            unix => match unix.saturating_sub_unsigned(self.origin) {
                ..=0 => PASSED,
                seconds => u32::try_from(seconds).unwrap_or(u32::MAX),
            },
        }
    }

    /// Whether nothing can be as old as what is told by this second: it was before the start.
    pub(crate) fn is_before_all(&self, at: u32) -> bool {
        at <= PASSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_where_another_stood() {
        let start = Start::new(Time::ZERO, 1_700_000_000);
        let clock = |start: Start| {
            let clock = start.clock(Time::from_nanos(5_000_000_000));
            (clock.now, clock.unix())
        };
        assert_eq!(clock(start), (67, 1_700_000_005));
        assert_eq!(clock(start.going_on(1000)), (1005, 1_700_000_005));
        // Less than any clock shows.
        assert_eq!(clock(start.going_on(0)), (67, 1_700_000_005));
    }

    #[test]
    fn expiries_are_relative_absolute_or_passed() {
        let clock = Clock::new(100, 1_700_000_000);
        assert_eq!(
            (clock.now, clock.unix(), clock.uptime()),
            (162, 1_700_000_100, 102)
        );
        for (exptime, expiry) in [
            (0, 0),
            (1, 163),
            (RELATIVE_MAX, 162 + RELATIVE_MAX as u32),
            (RELATIVE_MAX + 1, PASSED),
            (-1, PASSED),
            (i64::MIN, PASSED),
            (1_700_000_100, 162),
            (1_700_000_110, 172),
            (i64::MAX, u32::MAX),
        ] {
            assert_eq!(clock.expiry(exptime), expiry, "{exptime}");
        }
    }
}
