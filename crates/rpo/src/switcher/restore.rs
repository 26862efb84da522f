//! What puts back what a switcher found: a line of text each, so that a process that knows nothing
//! else can do it. A group's folder is named from the root: that process may be anywhere. Version
//! 0.1.0 kept it as it was told it: such a name is read where it leads to a group.
//!
//! ```text
//! cgroup /sys/fs/cgroup/web <TAB> 0-7
//! tasks 0-7 <TAB> 4711:88123 4712:88130
//! smt /sys/devices/system/cpu/smt/control <TAB> on
//! unit web.service <TAB> 0-7 <TAB> /usr/bin/systemctl
//! ```

use super::mounts::{cgroup2, cpuset1};
use super::process::Process;
use crate::cpus::CpuSet;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A thing to put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restore {
    /// A control group's `cpuset.cpus`.
    Cgroup {
        /// The group.
        folder: PathBuf,
        /// What it had; empty for its parent's.
        cpus: String,
    },
    /// The CPUs of all threads of processes and of their descendants.
    Tasks {
        /// The processes.
        processes: BTreeSet<Process>,
        /// What they had.
        cpus: CpuSet,
    },
    /// smt/control.
    Smt {
        /// The file.
        path: PathBuf,
        /// What it had.
        value: String,
    },
    /// A unit's `AllowedCPUs`.
    Unit {
        /// The program to ask.
        systemctl: PathBuf,
        /// The unit.
        unit: String,
        /// All CPUs.
        cpus: String,
    },
}

/// A line that is none of what can be put back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` says nothing that can be put back")]
pub struct LineError(String);

impl fmt::Display for Restore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Restore::Cgroup { folder, cpus } => write!(out, "cgroup {}\t{cpus}", folder.display()),
            Restore::Tasks { processes, cpus } => {
                write!(out, "tasks {cpus}\t")?;
                let mut separator = "";
                for Process { pid, start } in processes {
                    write!(out, "{separator}{pid}:{start}")?;
                    separator = " ";
                }
                Ok(())
            }
            Restore::Smt { path, value } => write!(out, "smt {}\t{value}", path.display()),
            Restore::Unit {
                systemctl,
                unit,
                cpus,
            } => write!(out, "unit {unit}\t{cpus}\t{}", systemctl.display()),
        }
    }
}

impl FromStr for Restore {
    type Err = LineError;

    fn from_str(line: &str) -> Result<Restore, LineError> {
        read(line).ok_or_else(|| LineError(line.chars().take(80).collect()))
    }
}

fn read(line: &str) -> Option<Restore> {
    let (kind, rest) = line.split_once(' ')?;
    let (first, second) = rest.split_once('\t')?;
    Some(match kind {
        "cgroup" => {
            second.parse::<CpuSet>().ok()?;
            Restore::Cgroup {
                folder: match Path::new(first) {
                    folder if folder.is_absolute() => folder.to_owned(),
                    folder => found(folder)?,
                },
                cpus: second.to_owned(),
            }
        }
        "tasks" => {
            let process = |text: &str| {
                let (pid, start) = text.split_once(':')?;
                Some(Process {
                    pid: pid.parse().ok()?,
                    start: start.parse().ok()?,
                })
            };
            let cpus: CpuSet = first
                .parse()
                .ok()
                .filter(|cpus: &CpuSet| !cpus.is_empty())?;
            Restore::Tasks {
                processes: second
                    .split_whitespace()
                    .map(process)
                    .collect::<Option<_>>()?,
                cpus,
            }
        }
        "smt" => Restore::Smt {
            path: first.into(),
            value: second.to_owned(),
        },
        "unit" => {
            let (cpus, systemctl) = second.split_once('\t')?;
            Restore::Unit {
                systemctl: systemctl.into(),
                unit: first.to_owned(),
                cpus: cpus.to_owned(),
            }
        }
        _ => return None,
    })
}

/// The group of this name, seen from here, or from where groups are.
fn found(folder: &Path) -> Option<PathBuf> {
    let places = [Some(PathBuf::new()), cgroup2(), cpuset1()];
    let mut groups = places.into_iter().flatten().map(|place| place.join(folder));
    let group = groups.find(|group| group.join("cgroup.procs").exists());
    fs::canonicalize(group?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_put_back() {
        let processes = [(1, 2), (30, 40)].map(|(pid, start)| Process { pid, start });
        let cases = [
            Restore::Cgroup {
                folder: "/sys/fs/cgroup/a b".into(),
                cpus: String::new(),
            },
            Restore::Tasks {
                processes: processes.into(),
                cpus: "0-3,8".parse().expect("a list"),
            },
            Restore::Smt {
                path: "/sys/x".into(),
                value: "on".to_owned(),
            },
            Restore::Unit {
                systemctl: "/usr/bin/systemctl".into(),
                unit: "a.service".to_owned(),
                cpus: "0-3".to_owned(),
            },
        ];
        for case in cases {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        for garbage in [
            "",
            "cgroup",
            "cgroup /x",
            "cgroup /x\tz",
            "cgroup no-such-group\t0",
            "tasks \t1:2",
            "tasks 0\t1",
        ] {
            assert!(garbage.parse::<Restore>().is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn a_group_that_was_named_from_elsewhere_is_found_if_it_is_one() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let group = fs::canonicalize(dir.path()).expect("it is there");
        let here = std::env::current_dir().expect("a folder");
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let named = up.join(group.strip_prefix("/").expect("from the root"));
        let line = format!("cgroup {}\t0-3", named.display());
        assert!(line.parse::<Restore>().is_err(), "it is no group");
        fs::write(group.join("cgroup.procs"), "").expect("a file");
        let cpus = "0-3".to_owned();
        assert_eq!(
            line.parse(),
            Ok(Restore::Cgroup {
                folder: group,
                cpus
            })
        );
    }
}
