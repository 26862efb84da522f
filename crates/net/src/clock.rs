//! The two clocks of the machine. Only drivers read them; everything else is told the time.

use crate::port::{Time, WallClock};
use rustix::time::{ClockId, Timespec, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The monotonic clock now, which goes on while the machine sleeps: a lease that others gave ends
/// then, too. Answered without entering the kernel where the system allows it (some 20 ns).
pub fn monotonic() -> Time {
    time(ClockId::Boottime)
}

/// The same without the time for which the machine slept, which is what the kernel's waits and
/// systemd call monotonic.
pub fn awake() -> Time {
    time(ClockId::Monotonic)
}

fn time(clock: ClockId) -> Time {
    let now = clock_gettime(clock);
    Time::from_nanos(now.tv_sec as u64 * NANOS_PER_SECOND + now.tv_nsec as u64)
}

/// The calendar's clock now.
pub(crate) fn wall() -> WallClock {
    wall_with_nanos().0
}

/// A wall clock that is read again only when its second is over.
#[derive(Debug)]
pub(crate) struct CachedWall {
    value: WallClock,
    until: Time,
}

impl CachedWall {
    pub(crate) fn new() -> CachedWall {
        CachedWall {
            value: wall(),
            until: Time::ZERO,
        }
    }

    pub(crate) fn value(&self) -> WallClock {
        self.value
    }

    /// Brings the value up to date for a turn that begins at `now`.
    pub(crate) fn refresh(&mut self, now: Time) {
        if now >= self.until {
            let (value, nanos) = wall_with_nanos();
            self.value = value;
            self.until = Time::from_nanos(now.as_nanos() + (NANOS_PER_SECOND - nanos));
        }
    }
}

fn wall_with_nanos() -> (WallClock, u64) {
    let now = clock_gettime(ClockId::Realtime);
    // A machine whose calendar is before 1970 is treated as being there.
    let unix_seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    (WallClock { unix_seconds }, now.tv_nsec as u64)
}

/// How long from `now` to `at`, as the kernel wants it; zero if it has passed.
pub(crate) fn timespec_until(at: Time, now: Time) -> Timespec {
    let wait = at.since(now);
    Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: wait.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let mut last = monotonic();
        for _ in 0..1000 {
            let now = monotonic();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_monotonic_clock_goes_on_while_the_machine_sleeps() {
        let before = clock_gettime(ClockId::Boottime);
        let now = monotonic();
        let behind = clock_gettime(ClockId::Boottime);
        let nanos = |at: Timespec| at.tv_sec as u64 * NANOS_PER_SECOND + at.tv_nsec as u64;
        assert!((nanos(before)..=nanos(behind)).contains(&now.as_nanos()));
    }

    #[test]
    fn the_wall_clock_is_the_systems() {
        let system = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        assert!(wall().unix_seconds.abs_diff(system) <= 1);
    }

    #[test]
    fn a_cached_wall_clock_is_read_again_in_the_next_second() {
        let mut wall = CachedWall::new();
        let now = monotonic();
        wall.refresh(now);
        let until = wall.until;
        assert!(until > now && until <= now + Duration::from_secs(1));
        wall.value.unix_seconds = 1;
        wall.refresh(now);
        assert_eq!(wall.value().unix_seconds, 1);
        wall.refresh(until);
        assert_ne!(wall.value().unix_seconds, 1);
    }

    #[test]
    fn a_wait_is_never_negative() {
        let at = Time::from_nanos(3_000_000_007);
        let wait = timespec_until(at, Time::from_nanos(1_000_000_000));
        assert_eq!((wait.tv_sec, wait.tv_nsec), (2, 7));
        let wait = timespec_until(Time::ZERO, at);
        assert_eq!((wait.tv_sec, wait.tv_nsec), (0, 0));
    }
}
