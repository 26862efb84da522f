//! Addresses, routes and settings of interfaces: by the program `ip`, and by files of the kernel.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use thiserror::Error;

/// How long such a program may take; `iptables` waits five seconds for others at most.
const WITHIN: Duration = Duration::from_secs(20);

/// What cannot be set.
#[derive(Debug, Error)]
pub enum NotSet {
    /// There is no such program.
    #[error(
        "cannot run `{program}`, which sets addresses: {error}; install it (Debian: {package})"
    )]
    NoProgram {
        /// Which.
        program: &'static str,
        /// What it comes with.
        package: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// It refused.
    #[error("`{command}` failed: {said}")]
    Failed {
        /// With its arguments.
        command: String,
        /// What it says.
        said: String,
    },
    /// It did not end.
    #[error("`{command}` has not ended within {within:?}")]
    Late {
        /// With its arguments.
        command: String,
        /// How long that was.
        within: Duration,
    },
    /// A setting of the kernel's.
    #[error(
        "cannot write {value} to {path}: {error}; that needs CAP_NET_ADMIN, and /proc/sys not to \
         be read-only, as it is in many containers"
    )]
    Setting {
        /// Where.
        path: String,
        /// What.
        value: u8,
        /// What the system says.
        error: io::Error,
    },
}

/// Runs `ip` with these words, which are split at blanks; what it prints.
///
/// # Errors
/// [`NotSet`].
pub(super) fn ip(words: &str) -> Result<String, NotSet> {
    run("ip", "iproute2", words)
}

/// Runs a program likewise.
///
/// # Errors
/// [`NotSet`].
pub(super) fn run(
    program: &'static str,
    package: &'static str,
    words: &str,
) -> Result<String, NotSet> {
    run_within(program, package, words, WITHIN)
}

fn run_within(
    program: &'static str,
    package: &'static str,
    words: &str,
    within: Duration,
) -> Result<String, NotSet> {
    let mut command = Command::new(program);
    command.args(words.split(' ')).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.spawn().and_then(|child| output(child, within));
    let output = output.map_err(|error| NotSet::NoProgram {
        program,
        package,
        error,
    })?;
    let command = format!("{program} {words}");
    match output {
        Some(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Some(output) => Err(NotSet::Failed {
            command,
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
        None => Err(NotSet::Late { command, within }),
    }
}

/// What a program prints until it ends; none of one that has not within a time, which is killed.
fn output(mut child: Child, within: Duration) -> io::Result<Option<Output>> {
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).inspect_err(|_| {
        // Nobody would see to it: it may run on, or stay a zombie.
        let _ = child.kill();
        let _ = child.wait();
    })?;
    std::thread::scope(|scope| {
        let is_killed = scope.spawn(|| {
            let is_late = !is_there_within(&process, within);
            // It may have ended just now.
            is_late && pidfd_send_signal(&process, Signal::KILL).is_ok()
        });
        let output = child.wait_with_output();
        let is_killed = is_killed.join().unwrap_or_default();
        output.map(|output| (!is_killed).then_some(output))
    })
}

/// Whether there is something to be read within a time, or, of a process, whether it has ended.
pub(super) fn is_there_within(of: impl AsFd, within: Duration) -> bool {
    let time = Timespec::try_from(within).ok();
    loop {
        match poll(&mut [PollFd::new(&of, PollFlags::IN)], time.as_ref()) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// A setting of IPv4 on an interface, which goes with it.
///
/// # Errors
/// [`NotSet::Setting`].
pub(super) fn set(interface: &str, setting: &str) -> Result<(), NotSet> {
    write(format!("/proc/sys/net/ipv4/conf/{interface}/{setting}"), 1)
}

/// A setting of IPv6 likewise; done, too, where the kernel has no IPv6.
///
/// # Errors
/// [`NotSet::Setting`].
pub(super) fn set_v6(interface: &str, setting: &str, value: u8) -> Result<(), NotSet> {
    let path = format!("/proc/sys/net/ipv6/conf/{interface}/{setting}");
    match write(path, value) {
        Err(NotSet::Setting { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

fn write(path: String, value: u8) -> Result<(), NotSet> {
    fs::write(&path, value.to_string()).map_err(|error| NotSet::Setting { path, value, error })
}

/// Whether what comes in by an interface is sent on by another; false where there is none such.
pub(super) fn is_forwarding(interface: &str) -> bool {
    let path = format!("/proc/sys/net/ipv4/conf/{interface}/forwarding");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

/// A number that the kernel has of an interface, such as `mtu`; none where there is none such.
pub(super) fn number(interface: &str, which: &str) -> Option<u64> {
    let text = ip(&format!("-o -s -j link show dev {interface}")).ok()?;
    let links: serde_json::Value = serde_json::from_str(&text).ok()?;
    links.get(0)?.pointer(which)?.as_u64()
}

/// Whether it can be an interface's name (`dev_valid_name` of Linux), with a last `%d` for a
/// number perhaps.
pub(super) fn is_name(name: &str) -> bool {
    let all = |char: char| char.is_ascii_graphic() && !matches!(char, '/' | ':' | '%');
    let stem = name.strip_suffix("%d").unwrap_or(name);
    (1..16).contains(&name.len()) && stem.chars().all(all) && name != "." && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_not_waited_for() {
        let within = Duration::from_millis(100);
        let late = run_within("sleep", "coreutils", "600", within);
        assert!(matches!(late, Err(NotSet::Late { .. })), "{late:?}");
        assert_eq!(run("echo", "coreutils", "a b").expect("it runs"), "a b\n");
        let failed = run("ls", "coreutils", "/nowhere");
        assert!(matches!(failed, Err(NotSet::Failed { .. })), "{failed:?}");
    }

    #[test]
    fn names_of_interfaces_are_those_of_the_kernel() {
        for name in ["venice0", "vnic%d", "br-lan.7", "a"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", "a/b", "a b", "0123456789abcdef", "a%d0", "a:1"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
