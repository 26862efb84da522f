//! A time to wake up at that stays set from wait to wait.
//!
//! For a wait with a time limit the kernel sets a timer before the thread sleeps and takes it back
//! when it is woken, between a request and its answer; a virtual machine is left for each. Most
//! limits are far off, and many waits have the same: those are kept in a timerfd that epoll tells
//! of like of a socket, and the waits themselves have no limit.

use crate::port::Time;
use rustix::io;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Nearer ones are left to the wait: they change with each, and to set a timerfd that rings costs
/// three system calls.
const FAR: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Alarm {
    timerfd: OwnedFd,
    /// When it rings; [`Time::NEVER`] if it does not.
    at: Time,
}

impl Alarm {
    /// One that does not ring; readable once it does.
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub(super) fn new() -> io::Result<Alarm> {
        // The clock of `monotonic`.
        let (clock, flags) = (TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK);
        Ok(Alarm {
            timerfd: timerfd_create(clock, flags | TimerfdFlags::CLOEXEC)?,
            at: Time::NEVER,
        })
    }

    /// Has it ring at that time or before, if that is far off from `now` or was asked for already.
    /// Whether it does: if not, the wait is to have a limit.
    ///
    /// # Errors
    ///
    /// None that the system has a reason for.
    pub(super) fn rings_by(&mut self, at: Time, now: Time) -> io::Result<bool> {
        if self.at > at && at.since(now) >= FAR {
            self.set(at)?;
        }
        Ok(self.at <= at)
    }

    fn set(&mut self, at: Time) -> io::Result<()> {
        let (never, since_boot) = (Timespec::default(), Duration::from_nanos(at.as_nanos()));
        let once = Itimerspec {
            it_interval: never,
            it_value: Timespec {
                tv_sec: since_boot.as_secs() as i64,
                tv_nsec: since_boot.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.timerfd, TimerfdTimerFlags::ABSTIME, &once)?;
        self.at = at;
        Ok(())
    }

    /// It rang: when.
    pub(super) fn rang(&mut self) -> Time {
        // What is read is that it rang once.
        let _ = rustix::io::read(&self.timerfd, &mut [0u8; 8]);
        std::mem::replace(&mut self.at, Time::NEVER)
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timerfd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;
    use rustix::event::{PollFd, PollFlags, poll};

    fn rings_within(alarm: &Alarm, limit: Duration) -> bool {
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        poll(&mut [PollFd::new(alarm, PollFlags::IN)], Some(&limit)) == Ok(1)
    }

    #[test]
    fn it_rings_once_and_not_before_its_time() {
        let mut alarm = Alarm::new().expect("few files are open");
        let now = monotonic();
        let at = now + FAR * 10;
        assert_eq!(alarm.rings_by(at, now), Ok(true));
        assert!(rings_within(&alarm, Duration::from_secs(60)));
        assert!(monotonic() >= at);
        assert_eq!(alarm.rang(), at);
        assert!(!rings_within(&alarm, FAR * 10));
    }

    #[test]
    fn it_moves_to_sooner_and_not_to_later() {
        let mut alarm = Alarm::new().expect("few files are open");
        let now = monotonic();
        let hour = Duration::from_secs(3600);
        assert_eq!(alarm.rings_by(now + hour, now), Ok(true));
        assert_eq!(alarm.rings_by(now + FAR, now), Ok(true));
        assert_eq!(alarm.rings_by(now + hour * 2, now), Ok(true));
        assert!(rings_within(&alarm, Duration::from_secs(60)));
        assert_eq!(alarm.rang(), now + FAR);
    }

    #[test]
    fn what_is_near_is_left_to_the_wait_unless_it_was_asked_for() {
        let mut alarm = Alarm::new().expect("few files are open");
        let now = monotonic();
        let near = now + FAR / 2;
        assert_eq!(alarm.rings_by(near, now), Ok(false));
        assert_eq!(alarm.rings_by(now + FAR, now), Ok(true));
        assert_eq!(alarm.rings_by(now + FAR, near), Ok(true));
        assert_eq!(alarm.rings_by(near, now), Ok(false));
        assert!(rings_within(&alarm, Duration::from_secs(60)));
    }
}
