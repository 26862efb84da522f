//! Address translation for borrowers: what they send leaves by the donor's address.
//!
//! That is a rule of the kernel's, which stays where nobody takes it back. So a process is started
//! before it, which waits for the end of its input: that comes when the donor ends, however it
//! does. Then it takes the rule back.

use super::ip::{self, NotSet};
use super::network::Network;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "iptables";

/// A rule, there until dropped.
#[derive(Debug)]
pub(super) struct Masquerade {
    /// Takes the rule back; nobody ends it before.
    undo: Child,
}

impl Masquerade {
    /// Has what comes from a network and leaves by an interface bear this machine's address.
    ///
    /// # Errors
    /// [`NotSet`].
    pub(super) fn start(from: Network, interface: &str) -> Result<Self, NotSet> {
        let rule = format!("POSTROUTING -s {from} -o {interface} -j MASQUERADE");
        let undone = format!("-w 5 -t nat -D {rule}");
        // Signals of a terminal or a service manager are for the donor.
        let wait = "trap '' HUP INT TERM; cat >/dev/null; exec \"$@\" 2>/dev/null";
        let mut undo = Command::new("sh");
        undo.args(["-c", wait, "sh", PROGRAM])
            .args(undone.split(' '));
        undo.stdin(Stdio::piped()).stdout(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut undo, 0);
        let undo = undo.spawn().map_err(|error| NotSet::NoProgram {
            program: "sh",
            package: "dash",
            error,
        })?;
        let masquerade = Self { undo };
        ip::run(PROGRAM, PROGRAM, &format!("-w 5 -t nat -A {rule}"))?;
        Ok(masquerade)
    }
}

impl Drop for Masquerade {
    fn drop(&mut self) {
        drop(self.undo.stdin.take());
        let _ = self.undo.wait();
    }
}
