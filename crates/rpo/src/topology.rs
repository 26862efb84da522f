//! Which CPUs are hardware threads of one core: read from sysfs.
//!
//! ```text
//! devices/system/cpu/online                      0-7
//! devices/system/cpu/cpuN/topology/thread_siblings_list   0,4   who shares a core with N
//! devices/system/cpu/cpuN/topology/physical_package_id    0
//! devices/system/cpu/smt/control                 on, off, forceoff, notsupported, ...
//! devices/cpu_core/cpus, devices/cpu_atom/cpus   hybrid: which CPUs are of which kind
//! ```
//!
//! The tree is given as a path, so that tests make one of files.

use crate::cpus::{CpuSet, ListError};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Where the kernel shows itself.
pub const SYSFS: &str = "/sys";
/// Most bytes that are read of one file.
const FILE_MAX: u64 = 64 * 1024;

/// A core: its hardware threads that are online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its hardware threads.
    pub threads: CpuSet,
    /// The package (socket) that it is in, as the firmware numbers them; none where it says none.
    pub package: Option<u32>,
    /// Of which kind it is, where the CPU is hybrid: `core` or `atom` on Intel's.
    pub kind: Option<String>,
}

/// A machine's cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The cores with a CPU online, by their lowest CPU.
    pub cores: Vec<Core>,
    /// What smt/control says, where there is such a file.
    pub smt_control: Option<String>,
}

/// Why a machine's cores are not known.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has no list of CPUs.
    #[error("{path} has no list of CPUs")]
    List {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ListError,
    },
    /// No CPU is online there.
    #[error("{path} names no CPU")]
    None {
        /// The file.
        path: PathBuf,
    },
}

impl Topology {
    /// Reads the cores from a sysfs tree, [`SYSFS`] for the machine itself.
    ///
    /// # Errors
    /// When the tree has no list of CPUs that are online. What it does not say of a CPU is taken to
    /// be as on the simplest machine: a core of its own.
    pub fn read(sysfs: &Path) -> Result<Topology, TopologyError> {
        let cpus = sysfs.join("devices/system/cpu");
        let path = cpus.join("online");
        let online = required_list(&path)?;
        if online.is_empty() {
            return Err(TopologyError::None { path });
        }
        let kinds = kinds(sysfs)?;
        let mut cores = BTreeMap::<usize, Core>::new();
        for cpu in online.iter() {
            let of = cpus.join(format!("cpu{cpu}/topology"));
            // The newer name, then the older one.
            let siblings = match list(&of.join("core_cpus_list"))? {
                Some(siblings) => Some(siblings),
                None => list(&of.join("thread_siblings_list"))?,
            };
            // It names CPUs that went offline until the kernel has tidied up.
            let mut threads = siblings.unwrap_or_default().intersection(&online);
            threads.insert(cpu);
            let lowest = threads.first().unwrap_or(cpu);
            let package = text(&of.join("physical_package_id"))?;
            let kind = kinds.iter().find(|(_, cpus)| cpus.contains(cpu));
            cores.entry(lowest).or_insert_with(|| Core {
                threads,
                package: package.and_then(|text| text.trim().parse().ok()),
                kind: kind.map(|(name, _)| name.clone()),
            });
        }
        let smt_control = text(&cpus.join("smt/control"))?;
        Ok(Topology {
            cores: cores.into_values().collect(),
            smt_control: smt_control.map(|text| text.trim().to_owned()),
        })
    }

    /// All CPUs that are online.
    #[must_use]
    pub fn all_threads(&self) -> CpuSet {
        self.cores
            .iter()
            .flat_map(|core| core.threads.iter())
            .collect()
    }

    /// Of each core that has some of `within`, the lowest thread that is in it.
    #[must_use]
    pub fn one_per_core(&self, within: &CpuSet) -> CpuSet {
        let first = |core: &Core| core.threads.intersection(within).first();
        self.cores.iter().filter_map(first).collect()
    }

    /// The names of the kinds of cores, where there are several.
    #[must_use]
    pub fn kinds(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .cores
            .iter()
            .filter_map(|c| c.kind.as_deref())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How many packages there are.
    #[must_use]
    pub fn packages(&self) -> usize {
        let mut packages: Vec<_> = self.cores.iter().filter_map(|core| core.package).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.len().max(1)
    }

    /// Why there is nothing to choose on this machine within these CPUs, if that is so.
    #[must_use]
    pub fn nothing_to_choose(&self, within: &CpuSet) -> Option<String> {
        if self.one_per_core(within) != self.all_threads().intersection(within) {
            return None;
        }
        let has_siblings = self.cores.iter().any(|core| core.threads.len() > 1);
        Some(match self.smt_control.as_deref() {
            _ if has_siblings => format!(
                "nothing to gain, because no two of the CPUs {within} that may be used are threads \
                 of one core"
            ),
            Some(control @ ("off" | "forceoff")) => format!(
                "nothing to gain as it is, because simultaneous multithreading is switched off \
                 (/sys/devices/system/cpu/smt/control says {control})"
            ),
            _ => "nothing to gain, because each CPU is a core of its own: this machine has no \
                  simultaneous multithreading, or its hypervisor does not show it"
                .to_owned(),
        })
    }
}

/// The kinds of cores of a hybrid CPU: the perf devices `cpu_core`, `cpu_atom`, `cpu_lowpower`.
fn kinds(sysfs: &Path) -> Result<Vec<(String, CpuSet)>, TopologyError> {
    let mut kinds = Vec::new();
    for name in ["core", "atom", "lowpower"] {
        if let Some(cpus) = list(&sysfs.join(format!("devices/cpu_{name}/cpus")))? {
            kinds.push((name.to_owned(), cpus));
        }
    }
    Ok(kinds)
}

/// A file's text; none where there is no such file.
fn text(path: &Path) -> Result<Option<String>, TopologyError> {
    let read = |path| -> io::Result<String> {
        let mut text = String::new();
        fs::File::open(path)?
            .take(FILE_MAX)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    match read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TopologyError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// A file's list of CPUs; none where there is no such file.
fn list(path: &Path) -> Result<Option<CpuSet>, TopologyError> {
    let Some(text) = text(path)? else {
        return Ok(None);
    };
    let set = text.parse().map_err(|source| TopologyError::List {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(set))
}

fn required_list(path: &Path) -> Result<CpuSet, TopologyError> {
    list(path)?.ok_or_else(|| TopologyError::Read {
        path: path.to_owned(),
        source: ErrorKind::NotFound.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A tree with these CPUs online, each with its siblings and package.
    fn tree(online: &str, siblings: &[(usize, &str, &str)]) -> TempDir {
        let dir = TempDir::new().expect("a folder");
        write(&dir, "online", online);
        for (cpu, list, package) in siblings {
            write(
                &dir,
                &format!("cpu{cpu}/topology/thread_siblings_list"),
                list,
            );
            write(
                &dir,
                &format!("cpu{cpu}/topology/physical_package_id"),
                package,
            );
        }
        dir
    }

    fn write(dir: &TempDir, name: &str, text: &str) {
        let path = dir.path().join("devices/system/cpu").join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    fn set(text: &str) -> CpuSet {
        text.parse().expect(text)
    }

    #[test]
    fn siblings_share_a_core() {
        // As the paper's machine: two packages, here of two cores with two threads.
        let of = |cpu: usize| ["0\n", "1\n"][cpu % 2];
        let lists = ["0,4\n", "1,5\n", "2,6\n", "3,7\n"];
        let rows: Vec<_> = (0..8).map(|cpu| (cpu, lists[cpu % 4], of(cpu))).collect();
        let dir = tree("0-7\n", &rows);
        write(&dir, "smt/control", "on\n");
        let topology = Topology::read(dir.path()).expect("a topology");
        assert_eq!(topology.cores.len(), 4);
        assert_eq!(topology.packages(), 2);
        assert_eq!(topology.all_threads(), set("0-7"));
        assert_eq!(topology.one_per_core(&set("0-7")), set("0-3"));
        // A server confined to the second half has its cores' other threads.
        assert_eq!(topology.one_per_core(&set("4-7")), set("4-7"));
        assert_eq!(topology.one_per_core(&set("0,4,5")), set("0,5"));
        assert_eq!(topology.nothing_to_choose(&set("0-7")), None);
        let why = topology.nothing_to_choose(&set("0-3")).expect("a reason");
        assert!(why.contains("no two of the CPUs 0-3"), "{why}");
        assert_eq!(topology.smt_control.as_deref(), Some("on"));
    }

    #[test]
    fn threads_that_are_offline_are_nobodys_siblings() {
        let rows = [
            (0, "0,2\n", "0\n"),
            (1, "1,3\n", "0\n"),
            (3, "1,3\n", "0\n"),
        ];
        let dir = tree("0-1,3\n", &rows);
        let topology = Topology::read(dir.path()).expect("a topology");
        let threads: Vec<_> = topology.cores.iter().map(|c| c.threads.clone()).collect();
        assert_eq!(threads, [set("0"), set("1,3")]);
    }

    #[test]
    fn without_siblings_there_is_nothing_to_choose() {
        let dir = tree("0-1", &[(0, "0", "0"), (1, "1", "0")]);
        write(&dir, "smt/control", "notsupported\n");
        let topology = Topology::read(dir.path()).expect("a topology");
        let why = topology.nothing_to_choose(&set("0-1")).expect("a reason");
        assert!(
            why.contains("nothing to gain, because each CPU is a core of its own"),
            "{why}"
        );
        write(&dir, "smt/control", "off\n");
        let topology = Topology::read(dir.path()).expect("a topology");
        let why = topology.nothing_to_choose(&set("0-1")).expect("a reason");
        assert!(why.contains("switched off"), "{why}");
    }

    #[test]
    fn hybrid_cores_have_their_kind() {
        let rows = [
            (0, "0-1", "0"),
            (1, "0-1", "0"),
            (2, "2", "0"),
            (3, "3", "0"),
        ];
        let dir = tree("0-3", &rows);
        for (kind, cpus) in [("core", "0-1\n"), ("atom", "2-3\n")] {
            let path = dir.path().join(format!("devices/cpu_{kind}/cpus"));
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, cpus).expect("a file");
        }
        let topology = Topology::read(dir.path()).expect("a topology");
        assert_eq!(topology.kinds(), ["atom", "core"]);
        // Small cores have one thread each, which stays.
        assert_eq!(topology.one_per_core(&set("0-3")), set("0,2-3"));
    }

    #[test]
    fn what_is_missing_or_garbage_is_told() {
        let dir = TempDir::new().expect("a folder");
        let error = Topology::read(dir.path()).expect_err("no tree");
        assert!(error.to_string().contains("online"), "{error}");
        let dir = tree("zero\n", &[]);
        assert!(matches!(
            Topology::read(dir.path()),
            Err(TopologyError::List { .. })
        ));
        let dir = tree("\n", &[]);
        assert!(matches!(
            Topology::read(dir.path()),
            Err(TopologyError::None { .. })
        ));
        // A machine that tells no siblings has cores of one thread.
        let dir = tree("0-2", &[]);
        assert_eq!(
            Topology::read(dir.path()).expect("a topology").cores.len(),
            3
        );
    }

    #[test]
    fn this_machine_has_cores() {
        let topology = Topology::read(Path::new(SYSFS)).expect("Linux shows its CPUs");
        assert!(!topology.all_threads().is_empty());
    }
}
