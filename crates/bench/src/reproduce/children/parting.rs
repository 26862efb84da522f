//! Processes that end where whoever started them is killed, and can do nothing for it any more.
#![allow(unsafe_code)]

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the system end it by this signal where this program is killed. The signal comes when the
/// *thread* ends that starts it, so that has to be one that stays, such as the main one.
pub(super) fn end_with_this_thread(command: &mut Command, signal: Signal) {
    let parent = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(signal))?;
        // Whose parent was killed before it could ask has another one now.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(io::Error::from(ErrorKind::Interrupted)),
        }
    };
    // SAFETY: the closure runs in the new process before its program does, where no lock of
    // another thread may be waited for: it makes two system calls, and takes no memory, nor does
    // an error.
    unsafe { command.pre_exec(ask) };
}
