//! The probes: each looks at one thing.

use super::system::System;
use rhythm_engine_cuda::gpu::driver::Driver;
use rhythm_protocol::scan::Level;
use rhythm_venice::memory::run;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::thread::sched_getaffinity;
use serde::Serialize;
use std::io;

/// The oldest kernel that a server is tried on: epoll_pwait2(2).
const KERNEL_MIN: (u32, u32) = (5, 11);
/// Fewer open files than this are soon used up; a server takes all that there may be.
const OPEN_FILES_MIN: u64 = 1024;
/// From so many on there is nothing to say.
const OPEN_FILES_MANY: u64 = 65_536;
/// Connections that wait to be accepted: what a server asks for.
const BACKLOG: u64 = 1024;

/// How good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Good,
    /// It works, but slower, or less of it.
    Remark,
    /// A server does not start, or is soon full.
    Problem,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) what: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    /// What follows from it, and what helps.
    pub(super) means: Option<String>,
}

fn good(what: &'static str, found: impl Into<String>) -> Finding {
    Finding {
        what,
        state: State::Good,
        found: found.into(),
        means: None,
    }
}

impl Finding {
    /// It is not as good as that.
    fn but(self, state: State, means: impl Into<String>) -> Finding {
        Finding {
            state,
            means: Some(means.into()),
            ..self
        }
    }
}

/// Everything that can be told.
pub(super) fn all(system: &System) -> Vec<Finding> {
    let files = getrlimit(Resource::Nofile);
    let files = open_files(files.current, files.maximum);
    findings(system, files, run::faults(), opened())
}

/// Of a system, and what was found where it has no file to read: open files, whether page faults
/// may be answered, the GPU.
fn findings(
    system: &System,
    files: Finding,
    faults: io::Result<()>,
    opened: Result<String, String>,
) -> Vec<Finding> {
    let found = [
        kernel(system),
        Some(cpus(system)),
        Some(instructions()),
        smt(system),
        memory(system),
        memory_limit(system),
        Some(files),
        backlog(system),
        ports(system),
        huge_pages(system),
        nodes(system),
        clock(system),
        counters(system),
        Some(page_faults(system, faults)),
        Some(gpu(opened)),
    ];
    found.into_iter().flatten().collect()
}

fn kernel(system: &System) -> Option<Finding> {
    let release = system.read("proc/sys/kernel/osrelease")?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    let version = (number()?, number()?);
    let found = good("kernel", format!("Linux {release}"));
    if version >= KERNEL_MIN {
        return Some(found);
    }
    let (major, minor) = KERNEL_MIN;
    let means = format!(
        "a server is tried on Linux {major}.{minor} and later; before, it can wait for whole\n\
         milliseconds alone, so cohorts wait up to one longer"
    );
    Some(found.but(State::Remark, means))
}

/// CPUs, and what control groups leave of their time.
fn cpus(system: &System) -> Finding {
    // Those that this process may have. (The standard library's number is of both already.)
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = sched_getaffinity(None).map_or(workers as u32, |cpus| cpus.count().max(1));
    // "QUOTA PERIOD", in microseconds; "max" where there is none.
    let share = |text: String| -> Option<f64> {
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    };
    let shares = system.of_control_groups("cpu.max").into_iter();
    match shares.filter_map(share).reduce(f64::min) {
        Some(share) if share < f64::from(cpus) => {
            let workers = share.floor().max(1.0);
            let found = format!(
                "{cpus}, and a control group (cpu.max) leaves the time of {share:.1}: {workers:.0} \
                 without --workers"
            );
            let found = good("CPUs", found);
            match share < 1.0 {
                true => found.but(
                    State::Remark,
                    "a worker is stopped for a while again and again: a whole CPU is the least",
                ),
                false => found,
            }
        }
        _ => {
            let found = format!("{cpus}: {workers} workers where --workers says nothing");
            good("CPUs", found)
        }
    }
}

fn instructions() -> Finding {
    let (active, all) = (Level::active(), Level::all());
    let all: Vec<&str> = all.map(Level::name).collect();
    let found = good(
        "instructions",
        format!("{} is used, of {}", active.name(), all.join(", ")),
    );
    match Level::from_env() {
        Err(error) => found.but(State::Remark, error.to_string()),
        Ok(_) if matches!(active.name(), "avx2" | "avx512" | "neon") => found,
        Ok(_) => found.but(
            State::Remark,
            "pages are scanned and rendered more slowly so: AVX2 and NEON are better",
        ),
    }
}

/// Hardware threads of one core: what `rhythm rpo` switches.
fn smt(system: &System) -> Option<Finding> {
    let control = system.read("sys/devices/system/cpu/smt/control")?;
    Some(good(
        "SMT",
        match control.as_str() {
            "on" => "on: rhythm rpo can say when one thread a core is better".to_owned(),
            "off" | "forceoff" => format!("{control}: one hardware thread a core"),
            "notsupported" | "notimplemented" => "none: one hardware thread a core".to_owned(),
            other => other.to_owned(),
        },
    ))
}

fn memory(system: &System) -> Option<Finding> {
    let text = system.read("proc/meminfo")?;
    let kilobytes = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    let (all, free) = (kilobytes("MemTotal")?, kilobytes("MemAvailable")?);
    let found = format!("{}, {} available", size(all << 10), size(free << 10));
    Some(good("memory", found))
}

fn memory_limit(system: &System) -> Option<Finding> {
    let limits = system.of_control_groups("memory.max").into_iter();
    let limit = limits.filter_map(|text| text.parse::<u64>().ok()).min()?;
    let means = "a server that takes more is killed: compare with the most that its settings \
                 allow,\nwhich `rhythm check DIR --print settings` ends with";
    let found = good("memory limit", format!("{} (memory.max)", size(limit)));
    Some(found.but(State::Remark, means))
}

/// A server raises its own limit up to the most there may be.
fn open_files(limit: Option<u64>, most: Option<u64>) -> Finding {
    let said = |limit: Option<u64>| limit.map_or("any number".to_owned(), |n| n.to_string());
    let found = format!("{}, up to {} where asked for", said(limit), said(most));
    let found = good("open files", found);
    let cure = "raise it: LimitNOFILE= of systemd, `ulimit -Hn`, limits.conf";
    match most.unwrap_or(u64::MAX) {
        most if most < OPEN_FILES_MIN => {
            let means = format!("a server has hardly room for connections;\n{cure}");
            found.but(State::Problem, means)
        }
        most if most < OPEN_FILES_MANY => {
            let means = format!("each connection is one; {cure}");
            found.but(State::Remark, means)
        }
        _ => found,
    }
}

fn backlog(system: &System) -> Option<Finding> {
    let most = system.number("proc/sys/net/core/somaxconn")?;
    let found = good(
        "backlog",
        format!("{most} connections may wait to be let in"),
    );
    if most >= BACKLOG {
        return Some(found);
    }
    let means = format!("a rush of clients is refused; sysctl net.core.somaxconn={BACKLOG}");
    Some(found.but(State::Remark, means))
}

/// Of clients: what limits a load generator, and connections to backends.
fn ports(system: &System) -> Option<Finding> {
    let range = system.read("proc/sys/net/ipv4/ip_local_port_range")?;
    let mut ends = range.split_whitespace().map(str::parse::<u32>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    let count = (last + 1).saturating_sub(first);
    Some(good(
        "ports",
        format!("{count} connections of this machine to one address, at most"),
    ))
}

fn huge_pages(system: &System) -> Option<Finding> {
    let text = system.read("sys/kernel/mm/transparent_hugepage/enabled")?;
    let (_, rest) = text.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    let found = good("huge pages", chosen);
    if chosen != "never" {
        return Some(found);
    }
    let means = "a large `rhythm kv` waits for the tables of its pages; madvise is enough:\n\
                 echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    Some(found.but(State::Remark, means))
}

fn nodes(system: &System) -> Option<Finding> {
    let names = system.names("sys/devices/system/node");
    let is_node = |name: &&String| {
        let number = name.strip_prefix("node");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let count = names.iter().filter(is_node).count();
    match count {
        0 => None,
        1 => Some(good("memory nodes", "1")),
        _ => {
            let means = "memory of another node is slower: a server for each, bound to it \
                         (numactl --cpunodebind=N --membind=N)";
            let found = good("memory nodes", count.to_string());
            Some(found.but(State::Remark, means))
        }
    }
}

fn clock(system: &System) -> Option<Finding> {
    let folder = "sys/devices/system/clocksource/clocksource0";
    let source = system.read(&format!("{folder}/current_clocksource"))?;
    let found = good("clock", source.as_str());
    if !matches!(
        source.as_str(),
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies"
    ) {
        return Some(found);
    }
    let means = "each look at the clock is a system call and a slow device: see why tsc or \
                 kvm-clock is not used (dmesg | grep -i clocksource)";
    Some(found.but(State::Remark, means))
}

fn counters(system: &System) -> Option<Finding> {
    // Even this file may be missing: a kernel without perf_event_open(2).
    let level = system.read("proc/sys/kernel/perf_event_paranoid")?;
    let counter = perf_event::Builder::new(perf_event::events::Hardware::INSTRUCTIONS);
    Some(match counter.build() {
        Ok(_) => good("counters", "instructions can be counted"),
        Err(error) => good("counters", format!("none: {error}")).but(
            State::Remark,
            format!(
                "`rhythm bench` counts no instructions, nothing else needs them: virtual machines\n\
                 often have no counters, and nothing is to be mended then; perf_event_paranoid\n\
                 is {level}, where 2 is enough"
            ),
        ),
    })
}

/// What `rhythm venice run` stands on: page faults of a program, answered by another process.
fn page_faults(system: &System, probed: io::Result<()>) -> Finding {
    let what = "page faults";
    let Err(why) = probed else {
        return good(what, "another process can answer them (userfaultfd)");
    };
    const SETTING: &str = "vm.unprivileged_userfaultfd";
    let setting = system.number("proc/sys/vm/unprivileged_userfaultfd");
    let setting = setting.map_or("not there".to_owned(), |number| number.to_string());
    let device = match system.exists("dev/userfaultfd") {
        true => "there, and may be its owner's alone",
        false => "not there",
    };
    let help = match why.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSYS) => {
            "it needs a kernel that is built with CONFIG_USERFAULTFD; a container's seccomp may\n\
             say this, too"
                .to_owned()
        }
        Some(Errno::INVAL) => "it needs Linux 5.19 or later".to_owned(),
        _ => format!(
            "it needs root (CAP_SYS_PTRACE, by which forks are followed), also where {SETTING}\n\
             (here {setting}) is 1, or /dev/userfaultfd (here {device}) may be opened;\n\
             containers often forbid it by seccomp"
        ),
    };
    good(what, format!("userfaultfd is refused: {why}")).but(
        State::Remark,
        format!(
            "`rhythm venice run` starts no program with memory of another machine, nothing else\n\
             needs them; {help}"
        ),
    )
}

/// The first GPU, in words.
fn opened() -> Result<String, String> {
    let driver = Driver::open(0).map_err(|why| why.to_string())?;
    let gpu = driver.describe();
    Ok(format!(
        "{}, {} of memory, driver for CUDA {}",
        gpu.name,
        size(gpu.memory_bytes),
        gpu.driver_version
    ))
}

fn gpu(opened: Result<String, String>) -> Finding {
    match opened {
        Ok(gpu) => good("GPU", gpu),
        Err(why) => good("GPU", format!("none to use: {why}")).but(
            State::Remark,
            "pages are rendered by the CPUs, as they are without `--device cuda`, which ends with\n\
             an error here; nothing else is missing. It needs compute capability 9.0 or later\n\
             (8.0 with NVRTC) and the driver for CUDA 13.0 (docs/gpu.md)",
        ),
    }
}

/// A size, for people.
fn size(bytes: u64) -> String {
    let gib = bytes as f64 / f64::from(1 << 30);
    match gib < 1.0 {
        true => format!("{:.0} MiB", gib * 1024.0),
        false => format!("{gib:.1} GiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Deref;
    use std::path::Path;
    use tempfile::TempDir;

    /// A system of files, which are there as long as it is.
    struct Made {
        system: System,
        _root: TempDir,
    }

    impl Deref for Made {
        type Target = System;

        fn deref(&self) -> &System {
            &self.system
        }
    }

    fn system(files: &[(&str, &str)]) -> Made {
        let root = tempfile::tempdir().expect("a folder can be made");
        for (path, text) in files {
            let path = root.path().join(path);
            let folder = path.parent().unwrap_or(Path::new("/"));
            std::fs::create_dir_all(folder).expect("a folder can be made");
            std::fs::write(path, text).expect("a file can be written");
        }
        Made {
            system: System::below(root.path().to_owned()),
            _root: root,
        }
    }

    fn state(finding: Option<Finding>) -> Option<State> {
        finding.map(|finding| finding.state)
    }

    #[test]
    fn kernels_are_compared_by_their_numbers() {
        for (release, expected) in [
            ("5.11.0-rc3", Some(State::Good)),
            ("6.1.0-13-amd64\n", Some(State::Good)),
            ("10.0", Some(State::Good)),
            ("5.9.16", Some(State::Remark)),
            ("4.18.0-553.el8", Some(State::Remark)),
            ("none", None),
        ] {
            let system = system(&[("proc/sys/kernel/osrelease", release)]);
            assert_eq!(state(kernel(&system)), expected, "{release}");
        }
    }

    #[test]
    fn limits_of_outer_control_groups_hold_too() {
        let system = system(&[
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/outer/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/memory.max", "1073741824\n"),
        ]);
        let found = cpus(&system);
        assert_eq!(found.state, State::Remark);
        assert!(found.found.contains("time of 0.5: 1 without"), "{found:?}");
        // As many as the server takes by itself are no mistake.
        let file = ("sys/fs/cgroup/cpu.max", "100000 100000\n");
        let found = cpus(&super::tests::system(&[file]));
        assert_eq!(found.state, State::Good, "{found:?}");
        let limit = memory_limit(&system).expect("there is one");
        assert!(limit.found.starts_with("1.0 GiB"), "{limit:?}");
    }

    #[test]
    fn a_system_that_says_nothing_is_no_problem() {
        let files = open_files(None, None);
        let refused = Err(Errno::NOSYS.into());
        let found = findings(&system(&[]), files, refused, Err("none".to_owned()));
        let whats: Vec<&str> = found.iter().map(|finding| finding.what).collect();
        let due = ["CPUs", "instructions", "open files", "page faults", "GPU"];
        assert_eq!(whats, due);
        let mut states = found.iter().map(|finding| finding.state);
        assert!(states.all(|state| state != State::Problem), "{found:?}");
    }

    #[test]
    fn few_open_files_are_told_with_the_cure() {
        assert_eq!(open_files(Some(256), Some(512)).state, State::Problem);
        assert_eq!(open_files(Some(1024), Some(4096)).state, State::Remark);
        assert_eq!(open_files(Some(1024), Some(1 << 20)).state, State::Good);
        assert_eq!(open_files(Some(1024), None).state, State::Good);
        let means = open_files(Some(256), Some(512)).means.unwrap_or_default();
        assert!(means.contains("LimitNOFILE="), "{means}");
    }

    #[test]
    fn what_slows_a_server_is_a_remark() {
        let clock_path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        let system = system(&[
            (clock_path, "hpet\n"),
            ("proc/sys/net/core/somaxconn", "128\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always madvise [never]\n",
            ),
            ("sys/devices/system/node/node0/x", ""),
            ("sys/devices/system/node/node1/x", ""),
            ("sys/devices/system/node/possible", "0-1"),
        ]);
        for finding in [
            clock(&system),
            backlog(&system),
            huge_pages(&system),
            nodes(&system),
        ] {
            assert_eq!(state(finding.clone()), Some(State::Remark), "{finding:?}");
        }
        assert_eq!(
            nodes(&system).map(|nodes| nodes.found),
            Some("2".to_owned())
        );
    }

    #[test]
    fn page_faults_that_nobody_may_answer_are_told_with_what_they_cost_and_what_helps() {
        let setting = ("proc/sys/vm/unprivileged_userfaultfd", "0\n");
        let system = system(&[setting, ("dev/userfaultfd", "")]);
        assert_eq!(page_faults(&system, Ok(())).state, State::Good);
        let refused = |errno: Errno| page_faults(&system, Err(errno.into()));
        for (errno, helps) in [
            (
                Errno::PERM,
                "(here 0) is 1, or /dev/userfaultfd (here there",
            ),
            (Errno::NOSYS, "CONFIG_USERFAULTFD"),
            (Errno::INVAL, "Linux 5.19"),
        ] {
            let found = refused(errno);
            assert_eq!(found.state, State::Remark, "{found:?}");
            let means = found.means.expect("it says so");
            assert!(means.contains("`rhythm venice run` starts no"), "{means}");
            assert!(means.contains(helps), "{means}");
        }
        let system = super::tests::system(&[]);
        let means = page_faults(&system, Err(Errno::PERM.into())).means;
        let means = means.expect("it says so");
        assert_eq!(means.matches("(here not there)").count(), 2, "{means}");
    }

    #[test]
    fn a_missing_gpu_is_told_with_what_it_costs() {
        assert_eq!(gpu(Ok("one".to_owned())).state, State::Good);
        let none = gpu(Err("no driver".to_owned()));
        assert_eq!(none.state, State::Remark, "{none:?}");
        let means = none.means.expect("it says so");
        assert!(means.contains("rendered by the CPUs"), "{means}");
    }
}
