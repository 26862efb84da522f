//! Address translation for borrowers: what they send leaves by the donor's address.
//!
//! That is a rule of the kernel's, which stays where nobody takes it back. So a process makes it
//! that waits for the end of its input: that comes when the donor ends, however it does. Then it
//! takes the rule back. Where it was killed itself, the next donor that listens there finds the
//! rule by its comment: nobody else's has the same, since one alone listens.

use super::ip::{self, NotSet};
use super::network::Network;
use crate::random;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tracing::warn;

const PROGRAM: &str = "iptables";
/// With it begin the comments of all rules.
const MARK: &str = "rhythm-venice";
/// Makes a rule, says so, and takes it back in the end: until there is none, for another may have
/// the kernel's lock. Signals of a terminal or a service manager are for the donor.
const GUARD: &str = "\
trap '' HUP INT TERM PIPE
nat() { iptables -w 5 -t nat \"$@\"; }
nat -A \"$@\" || exit
echo there
cat >/dev/null
for try in 1 2 3 4 5; do
    nat -D \"$@\"
    nat -C \"$@\"
    [ $? = 1 ] && exit
    sleep 1
done 2>/dev/null";

/// How long it may take to make a rule, and to take it back: it waits for others each time.
const MADE_WITHIN: Duration = Duration::from_secs(20);
const TAKEN_BACK_WITHIN: Duration = Duration::from_secs(60);

/// A rule, there until dropped.
#[derive(Debug)]
pub(super) struct Masquerade {
    /// Takes the rule back; nobody ends it before.
    guard: Child,
}

impl Masquerade {
    /// Has what comes from a network and leaves by an interface bear this machine's address, for
    /// the donor that listens there.
    ///
    /// # Errors
    /// [`NotSet`].
    pub(super) fn start(
        from: Network,
        interface: &str,
        listen: SocketAddr,
    ) -> Result<Self, NotSet> {
        let mark = format!("{MARK}/{listen}/");
        take_back(&mark)?;
        // A guard that still takes back what the last donor had does not take this.
        let [a, b, c, d, ..] = random::numbers();
        let own = u32::from_le_bytes([a, b, c, d]);
        let rule = format!(
            "POSTROUTING -s {from} -o {interface} -m comment --comment {mark}{own:08x} \
             -j MASQUERADE"
        );
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh"]).args(rule.split(' '));
        guard.stdin(Stdio::piped()).process_group(0);
        guard.stdout(Stdio::piped()).stderr(Stdio::piped());
        let guard = guard.spawn().map_err(|error| NotSet::NoProgram {
            program: "sh",
            package: "dash",
            error,
        })?;
        let mut masquerade = Self { guard };
        let command = format!("{PROGRAM} -w 5 -t nat -A {rule}");
        let output = masquerade.guard.stdout.take();
        let Some(output) = output.filter(|it| ip::is_there_within(it, MADE_WITHIN)) else {
            let within = MADE_WITHIN;
            return Err(NotSet::Late { command, within });
        };
        let mut said = String::new();
        // Where nothing can be read, nothing is said.
        let _ = BufReader::new(output).read_line(&mut said);
        match said.is_empty() {
            false => Ok(masquerade),
            true => Err(NotSet::Failed {
                command,
                said: masquerade.complaint(),
            }),
        }
    }

    /// What a guard says that made no rule.
    fn complaint(&mut self) -> String {
        let said = self.guard.stderr.take().map(std::io::read_to_string);
        let said = said.and_then(Result::ok).unwrap_or_default();
        said.trim().to_owned()
    }
}

impl Drop for Masquerade {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let guard = pidfd_open(Pid::from_child(&self.guard), PidfdFlags::empty());
        match guard.is_ok_and(|it| ip::is_there_within(it, TAKEN_BACK_WITHIN)) {
            true => drop(self.guard.wait()),
            false => {
                warn!("the rule of a donor is not taken back yet: see whether {PROGRAM} hangs")
            }
        }
    }
}

/// Takes back the rules that have a mark.
fn take_back(mark: &str) -> Result<(), NotSet> {
    let rules = ip::run(PROGRAM, PROGRAM, "-w 5 -t nat -S POSTROUTING")?;
    for rule in rules.lines().filter(|rule| rule.contains(mark)) {
        let undo = rule.replace('"', "").replacen("-A", "-D", 1);
        // Its own guard may have been faster.
        if let Err(error) = ip::run(PROGRAM, PROGRAM, &format!("-w 5 -t nat {undo}")) {
            warn!("a rule of a donor that is gone may be left: {error}");
        }
    }
    Ok(())
}
