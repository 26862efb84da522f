//! The guardian: a process that puts back what the controller found when that one is gone, however
//! it went.
//!
//! ```text
//! controller ──pipe──▶ guardian         the kernel closes the pipe when the controller ends,
//!     │                    │            be it by kill -9
//!     └── state file ◀─────┘            what is in it is put back; in order, it is gone by then
//! ```
//!
//! It is in a session of its own and ignores the signals that end a group of processes. Where it is
//! killed too, the next start puts back what is left, and so does `rhythm rpo restore`.

use super::state::{PutBack, State, StateError};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The guardian's own work: returns when `input` ends and what was left is put back; says what that
/// was.
///
/// # Errors
/// When it cannot be put back.
pub fn guard(state: &Path, mut input: impl Read) -> Result<PutBack, StateError> {
    // It fails only for who leads a group already, and then it has a session of its own.
    let _ = rustix::process::setsid();
    let mut ignored = [0; 64];
    loop {
        match input.read(&mut ignored) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    match State::put_back_left(state) {
        // A controller has been started since, has put it back, and has a guardian of its own.
        Err(StateError::Held(_)) => Ok(PutBack::default()),
        put_back => put_back,
    }
}

/// A guardian that runs as long as this process does.
#[derive(Debug)]
pub(super) struct Guardian {
    command: Command,
    child: Child,
}

impl Guardian {
    /// Starts it by this command, which leads to [`guard`] with its standard input.
    pub(super) fn start(mut command: Command) -> io::Result<Guardian> {
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn()?;
        Ok(Guardian { command, child })
    }

    /// Starts another one if it has ended; says whether that was so.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        let has_ended = self.child.try_wait()?.is_some();
        if has_ended {
            self.child = self.command.spawn()?;
        }
        Ok(has_ended)
    }

    /// Ends it: there is nothing left to guard.
    pub(super) fn end(mut self) {
        drop(self.child.stdin.take());
        // It has read the end; what it says is of no interest.
        let _ = self.child.wait();
    }
}
