//! Addresses, routes and settings of interfaces: by the program `ip`, and by files of the kernel.

use std::fs;
use std::io;
use std::process::Command;
use thiserror::Error;

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
    let output = Command::new(program).args(words.split(' ')).output();
    let output = output.map_err(|error| NotSet::NoProgram {
        program,
        package,
        error,
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(NotSet::Failed {
            command: format!("{program} {words}"),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
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
    fn names_of_interfaces_are_those_of_the_kernel() {
        for name in ["venice0", "vnic%d", "br-lan.7", "a"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", "a/b", "a b", "0123456789abcdef", "a%d0", "a:1"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
