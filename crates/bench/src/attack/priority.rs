//! Who goes first where the system may choose: victims before everybody else.
//!
//! The attack stays ordinary. It never rests, and where threads of real-time priority keep ordinary
//! ones from a processor, all of these are stopped for 50 ms each second (Linux: `fair_server`,
//! `sched_rt_runtime_us`), victims too. These rest most of the time.

use super::options::AttackError;
use rustix::thread::gettid;
use std::process::Command;

/// The victims'.
const PRIORITY: u8 = 20;

/// Gives the calling thread a real-time priority.
pub(super) fn go_first() -> Result<(), AttackError> {
    let refused = |why: &dyn ToString| Err(AttackError::Priority(why.to_string()));
    let id = gettid().as_raw_nonzero().to_string();
    let arguments = ["--rr", "--pid", &PRIORITY.to_string(), &id];
    match Command::new("chrt").args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => refused(&String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => refused(&error),
    }
}
