//! Who goes first where the system may choose: victims before the attack.

use super::options::AttackError;
use rustix::thread::gettid;
use std::process::Command;

/// Real-time priorities; a server is given one between them.
pub(super) const VICTIM_PRIORITY: u8 = 20;
pub(super) const ATTACK_PRIORITY: u8 = 5;

/// Gives the calling thread a real-time priority.
pub(super) fn set_priority(priority: u8) -> Result<(), AttackError> {
    let refused = |why: &dyn ToString| Err(AttackError::Priority(why.to_string()));
    let id = gettid().as_raw_nonzero().to_string();
    let arguments = ["--rr", "--pid", &priority.to_string(), &id];
    match Command::new("chrt").args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => refused(&String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => refused(&error),
    }
}
