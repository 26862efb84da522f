//! The process's limit of open files, which is its limit of connections.

use rustix::event::epoll;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Raises the limit of open files as far as the system allows without privileges, and returns it.
///
/// The usual limit of 1024 is kept low for programs that use `select`; none of ours does.
///
/// # Errors
///
/// What the system said, which it has no common reason to.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        )?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Has the system let this process, and those that it starts, open so many files, where it lets
/// them open fewer. Only root may, and up to `fs.nr_open`.
///
/// # Errors
///
/// What the system said: that it may not.
pub fn allow_open_files(count: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < count) {
        let count = Some(count);
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: count,
                maximum: count,
            },
        )?;
    }
    Ok(())
}

/// Has the system make room in the process's table of open files for so many, before they come.
///
/// A table that is full is doubled when another file is opened, and where the process has several
/// threads, whoever opens it waits until no core uses the old table any more: for some 10 ms, a
/// clients' crowd six times on its way to 4000 connections.
///
/// # Errors
///
/// What the system said: that there is no memory for it, or that the process may not open so many.
pub fn make_room_for_files(count: u64) -> io::Result<()> {
    let last = i32::try_from(count.saturating_sub(1)).unwrap_or(i32::MAX);
    let file = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    // The table grows for it, and stays as it is when it is closed.
    drop(fcntl_dupfd_cloexec(&file, last)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_table_has_room_for_as_many_files_as_were_asked_for() {
        let size = || -> u64 {
            let status = fs::read_to_string("/proc/self/status").expect("it is Linux");
            let line = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
            line.expect("it says so").trim().parse().expect("a number")
        };
        raise_open_files().expect("no privilege is needed");
        let before = size();
        make_room_for_files(before + 1).expect("it may open so many");
        assert!(size() > before);
        make_room_for_files(1).expect("there is room");
        assert!(size() > before);
    }

    #[test]
    fn more_files_are_allowed_where_that_is_up_to_this_process() {
        let before = raise_open_files().expect("raising up to the maximum needs no privilege");
        allow_open_files(before).expect("it may open so many already");
        assert_eq!(raise_open_files().expect("as before"), before);
        // More than any system allows, even root.
        assert!(allow_open_files(u64::MAX - 1).is_err());
    }

    #[test]
    fn the_limit_is_raised_to_the_maximum() {
        let raised = raise_open_files().expect("raising up to the maximum needs no privilege");
        assert_eq!(
            getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
            raised
        );
        assert_eq!(raise_open_files().expect("as before"), raised);
    }
}
