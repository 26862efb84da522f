//! Waiting for what a program says, but not for ever.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Waits until there is something to read, or its end.
///
/// # Errors
/// There is not in this time.
pub(super) fn ready(output: &impl AsFd, patience: Duration) -> io::Result<()> {
    let longest = Timespec::try_from(patience).map_err(io::Error::other)?;
    let mut one = [PollFd::new(output, PollFlags::IN)];
    loop {
        match poll(&mut one, Some(&longest)) {
            Ok(0) => {
                let why = format!("it has said nothing for {} s", patience.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
