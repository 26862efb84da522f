//! What this machine allows: each way of switching, timed on processes of its own that keep the
//! CPUs busy. Nobody else's are touched, and what is made is removed; what a probe left that was
//! killed, by the next one.

use crate::cpus::CpuSet;
use crate::switcher::measure::{Cost, cost};
use crate::switcher::{Affinity, Cgroup, Process, Switcher, mounts};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::Duration;

/// Begins the name of a probe's group; its process follows.
const GROUP: &str = "rhythm-rpo-probe-";
/// Between two switches, so that tasks come to run on the CPUs that they were given.
const PAUSE: Duration = Duration::from_millis(5);

/// A way, and how long it takes, or why it cannot be used.
#[derive(Debug)]
pub struct Probed {
    /// The way.
    pub way: &'static str,
    /// Its cost.
    pub cost: Result<Cost, String>,
}

/// Times each way with so many busy processes, switched so many times to the CPUs that `fewer`
/// chooses of all. It ends early, with ways that are not timed, once `is_ending`.
#[must_use]
pub fn probe(
    processes: usize,
    rounds: usize,
    fewer: &dyn Fn(&CpuSet) -> CpuSet,
    is_ending: &AtomicBool,
) -> Vec<Probed> {
    let timed = |switcher: &mut dyn Switcher| -> Result<Cost, String> {
        let fewer = fewer(switcher.full());
        if fewer.is_empty() || fewer == *switcher.full() {
            return Err("there is one CPU only".to_owned());
        }
        cost(switcher, &fewer, rounds, PAUSE, is_ending).map_err(|error| error.to_string())
    };
    let group = |mount: Option<PathBuf>, way| {
        let cost = mount.ok_or_else(|| "it is not mounted".to_owned());
        let cost = cost.and_then(|mount| {
            let busy = Busy::start(processes).map_err(|error| error.to_string())?;
            let group = Scratch::make(&mount, busy)?;
            let mut opened = Cgroup::open(&group.folder).map_err(|error| error.to_string())?;
            timed(&mut opened)
        });
        Probed { way, cost }
    };
    let affinity = || -> Result<Cost, String> {
        let busy = Busy::start(processes).map_err(|error| error.to_string())?;
        let mut opened = Affinity::open(busy.root()).map_err(|error| error.to_string())?;
        // Its processes come into being one after the other.
        for _ in 0..200 {
            opened.follow().map_err(|error| error.to_string())?;
            if opened.threads() > processes {
                break;
            }
            sleep(PAUSE);
        }
        timed(&mut opened)
    };
    vec![
        group(mounts::cgroup2(), "cgroup v2 cpuset"),
        group(mounts::cpuset1(), "cgroup v1 cpuset"),
        Probed {
            way: "sched_setaffinity",
            cost: affinity(),
        },
    ]
}

/// A shell with children that keep CPUs busy as long as it is there.
struct Busy(Child);

impl Busy {
    fn start(processes: usize) -> io::Result<Busy> {
        // A child ends when its parent, of which it knows the number, has.
        let script = format!(
            "me=$$; i=0; while [ $i -lt {processes} ]; do (while kill -0 $me; do :; done) & \
             i=$((i+1)); done; read end"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]);
        let child = shell.stdin(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        Ok(Busy(child))
    }

    fn root(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // Its children see that it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A group that is there for the time of the probe.
struct Scratch {
    folder: PathBuf,
    busy: Option<Busy>,
}

impl Scratch {
    fn make(mount: &Path, busy: Busy) -> Result<Scratch, String> {
        clear(mount);
        let folder = mount.join(format!("{GROUP}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let made = Scratch {
            folder,
            busy: Some(busy),
        };
        let write = |name: &str, text: &str| {
            let path = made.folder.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        if !made.folder.join("cgroup.controllers").exists() {
            // In v1 a new group has no CPUs nor memory.
            for name in ["cpuset.mems", "cpuset.cpus"] {
                let text = fs::read_to_string(mount.join(name)).unwrap_or_default();
                write(name, text.trim())?;
            }
        }
        // Who is made later is in the group as well; who was made already is moved.
        let root = made.busy.as_ref().map_or(0, Busy::root);
        write("cgroup.procs", &root.to_string())?;
        sleep(Duration::from_millis(300));
        for process in children(root) {
            let _ = write("cgroup.procs", &process.to_string());
        }
        Ok(made)
    }
}

/// Removes the groups of probes that were killed.
fn clear(mount: &Path) {
    for entry in fs::read_dir(mount).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let pid = name.strip_prefix(GROUP).and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid| Process::of(pid).is_none()) {
            // One that has tasks yet stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The processes whose parent this is.
fn children(parent: u32) -> Vec<u32> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    ids.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let of: u32 = text
            .rsplit_once(')')?
            .1
            .split_ascii_whitespace()
            .nth(1)?
            .parse()
            .ok()?;
        (of == parent).then_some(pid)
    })
    .collect()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.busy.take());
        // A group can be removed when the last of its tasks has ended.
        for _ in 0..1000 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
        tracing::warn!("{} could not be removed", self.folder.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_used_is_timed_and_nothing_is_left() {
        let number = |name: &str, or: usize| {
            std::env::var(name)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(or)
        };
        let (processes, rounds) = (number("RPO_PROCESSES", 4), number("RPO_ROUNDS", 5));
        let goes_on = AtomicBool::new(false);
        let first = |all: &CpuSet| all.iter().take(1).collect();
        let probed = probe(processes, rounds, &first, &goes_on);
        for Probed { way, cost } in &probed {
            match cost {
                Ok(cost) => println!("{way}: shrink {}, grow {}", cost.shrink, cost.grow),
                Err(why) => println!("{way}: {why}"),
            }
        }
        let one_cpu = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        let affinity = &probed.last().expect("three ways").cost;
        assert_eq!(affinity.is_ok(), !one_cpu, "{affinity:?}");
        let own = format!("{GROUP}{}", std::process::id());
        for mount in [mounts::cgroup2(), mounts::cpuset1()].into_iter().flatten() {
            assert!(!mount.join(&own).exists());
        }
    }

    #[test]
    fn what_a_killed_probe_left_is_removed_by_the_next() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let mut ended = Command::new("true").spawn().expect("a process");
        ended.wait().expect("it ends");
        let (killed, runs) = (ended.id(), std::process::id());
        let names = [killed, runs].map(|pid| format!("{GROUP}{pid}"));
        for name in [names[0].as_str(), &names[1], "rhythm-rpo-probe-x", "web"] {
            fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        clear(dir.path());
        let has = |name: &str| dir.path().join(name).exists();
        assert!(!has(&names[0]));
        assert!(has(&names[1]) && has("rhythm-rpo-probe-x") && has("web"));
    }
}
