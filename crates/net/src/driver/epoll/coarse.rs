//! epoll_wait(2), whose time-out is in whole milliseconds: for who lacks epoll_pwait2(2), as Linux
//! before 5.11, some sandboxes and valgrind do. rustix has one of the two, as it is built, and
//! libc's is no safe function.
#![allow(unsafe_code)]

use rustix::event::epoll::{Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const NANOS_PER_MILLISECOND: i64 = 1_000_000;

/// Has the kernel tell what is ready, behind the events that there are, within so long, or up to a
/// millisecond longer.
pub(super) fn wait(
    epoll: BorrowedFd<'_>,
    events: &mut Vec<Event>,
    timeout: Option<&Timespec>,
) -> Result<(), Errno> {
    let room = events.capacity() - events.len();
    let mut ready = vec![libc::epoll_event { events: 0, u64: 0 }; room];
    let limit = timeout.map_or(-1, milliseconds);
    // SAFETY: the kernel writes no more events than it is told, for which there is room, and keeps
    // no pointer.
    let count =
        unsafe { libc::epoll_wait(epoll.as_raw_fd(), ready.as_mut_ptr(), room as i32, limit) };
    let Ok(count) = usize::try_from(count) else {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    };
    events.extend(ready[..count].iter().map(|ready| Event {
        flags: EventFlags::from_bits_retain(ready.events),
        data: EventData::new_u64(ready.u64),
    }));
    Ok(())
}

/// No less than that: who is woken early would only wait again.
fn milliseconds(timeout: &Timespec) -> i32 {
    let of_nanos = (timeout.tv_nsec + NANOS_PER_MILLISECOND - 1) / NANOS_PER_MILLISECOND;
    let all = timeout.tv_sec.saturating_mul(1000).saturating_add(of_nanos);
    i32::try_from(all).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_to_milliseconds() {
        for (tv_sec, tv_nsec, expected) in [
            (0, 0, 0),
            (0, 1, 1),
            (0, 1_000_000, 1),
            (2, 1_000_001, 2002),
            (i64::MAX, 999_999_999, i32::MAX),
        ] {
            assert_eq!(milliseconds(&Timespec { tv_sec, tv_nsec }), expected);
        }
    }
}
