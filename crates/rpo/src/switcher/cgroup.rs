//! A control group's `cpuset.cpus`: one write moves all tasks of the group.
//!
//! ```text
//!                      cgroup v2                  cgroup v1
//! what is written      cpuset.cpus                cpuset.cpus
//! what is in effect    cpuset.cpus.effective      cpuset.effective_cpus, else cpuset.cpus
//! bounded by           parent's .effective        parent's
//! empty means          as the parent              not allowed with tasks
//! a CPU goes offline   comes back with it         is gone for good
//! ```

use super::error::SwitchError;
use super::restore::Restore;
use super::way::Switcher;
use crate::cpus::CpuSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Which hierarchy a group is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `cgroup`, mounted for cpusets.
    One,
    /// `cgroup2`.
    Two,
}

/// A control group whose set of CPUs is switched.
#[derive(Debug)]
pub struct Cgroup {
    folder: PathBuf,
    version: Version,
    /// What `cpuset.cpus` had: in v2 it may be empty.
    found: String,
    full: CpuSet,
    /// What else puts back what was found.
    also: Vec<Restore>,
}

impl Cgroup {
    /// Opens a group by its folder below a mount of cgroup v2 or v1.
    ///
    /// # Errors
    /// When it is no group, the root group, or one that has no set of its own.
    pub fn open(folder: &Path) -> Result<Cgroup, SwitchError> {
        let is_group = |folder: &Path| folder.join("cgroup.procs").exists();
        if !is_group(folder) {
            return Err(SwitchError::Unfit(format!(
                "{} is no control group: it has no cgroup.procs",
                folder.display()
            )));
        }
        let parent = folder.parent().filter(|parent| is_group(parent));
        let Some(parent) = parent else {
            return Err(SwitchError::Unfit(format!(
                "{} is the root of all control groups: that is the whole machine; name a group of \
                 the server's own",
                folder.display()
            )));
        };
        let version = match folder.join("cgroup.controllers").exists() {
            true => Version::Two,
            false => Version::One,
        };
        let path = folder.join("cpuset.cpus");
        if !path.exists() {
            return Err(SwitchError::Unfit(match version {
                Version::Two => format!(
                    "{} has no cpuset.cpus: the controller is off; `echo +cpuset > \
                     {}/cgroup.subtree_control` switches it on, in each group above from the root \
                     on, and so does AllowedCPUs= of any unit of systemd there",
                    folder.display(),
                    parent.display()
                ),
                Version::One => format!(
                    "{} has no cpuset.cpus: it is not in the hierarchy of cpusets",
                    folder.display()
                ),
            }));
        }
        let found = read(&path)?.trim().to_owned();
        let mut full = parse(&path, &found)?;
        let above = effective(parent, version)?;
        if full.is_empty() {
            full = above;
        } else if version == Version::Two {
            full = full.intersection(&above);
        }
        if full.is_empty() {
            return Err(SwitchError::Unfit(format!(
                "{} has no CPU that is online",
                path.display()
            )));
        }
        Ok(Cgroup {
            folder: folder.to_owned(),
            version,
            found,
            full,
            also: Vec::new(),
        })
    }

    /// The same, and this too puts back what was found.
    pub(super) fn and(mut self, also: Restore) -> Cgroup {
        self.also.push(also);
        self
    }

    /// Which hierarchy it is in.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Switcher for Cgroup {
    fn name(&self) -> String {
        let version = match self.version {
            Version::One => "v1",
            Version::Two => "v2",
        };
        format!("cgroup {version} {}", self.folder.display())
    }

    fn full(&self) -> &CpuSet {
        &self.full
    }

    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        // In v2 an empty set means all of the parent's.
        if cpus.is_empty() {
            return Err(SwitchError::Unfit("a server needs a CPU".to_owned()));
        }
        write(&self.folder.join("cpuset.cpus"), &cpus.to_string())
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        effective(&self.folder, self.version)
    }

    fn restores(&self) -> Vec<Restore> {
        let own = Restore::Cgroup {
            folder: self.folder.clone(),
            cpus: self.found.clone(),
        };
        std::iter::once(own)
            .chain(self.also.iter().cloned())
            .collect()
    }
}

/// The CPUs that a group's tasks may have now.
fn effective(folder: &Path, version: Version) -> Result<CpuSet, SwitchError> {
    let names: &[&str] = match version {
        Version::Two => &["cpuset.cpus.effective"],
        Version::One => &["cpuset.effective_cpus", "cpuset.cpus"],
    };
    let path = |name: &&str| folder.join(name);
    let path = (names.iter().map(path).find(|path| path.exists()))
        .unwrap_or_else(|| folder.join(names[0]));
    parse(&path, &read(&path)?)
}

fn read(path: &Path) -> Result<String, SwitchError> {
    fs::read_to_string(path).map_err(SwitchError::system("read", path))
}

fn parse(path: &Path, text: &str) -> Result<CpuSet, SwitchError> {
    let unfit = |error| SwitchError::Unfit(format!("{}: {error}", path.display()));
    text.parse().map_err(unfit)
}

/// Writes a file of the kernel's that is there, in one write, as it wants it.
pub(super) fn write(path: &Path, text: &str) -> Result<(), SwitchError> {
    let mut options = fs::OpenOptions::new();
    // The kernel's files have no end to cut; those of tests do.
    (options.write(true).truncate(true).open(path))
        // Without the line's end an empty text would be no write at all.
        .and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()))
        .map_err(SwitchError::system("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A tree of files that looks like a group below a root.
    fn tree(files: &[(&str, &str)]) -> (TempDir, PathBuf) {
        let dir = TempDir::new().expect("a folder");
        fs::create_dir(dir.path().join("web")).expect("a group");
        for name in ["cgroup.procs", "web/cgroup.procs"] {
            fs::write(dir.path().join(name), "").expect("a file");
        }
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("a file");
        }
        let web = dir.path().join("web");
        (dir, web)
    }

    const TWO: [(&str, &str); 5] = [
        ("cgroup.controllers", "cpuset cpu"),
        ("cpuset.cpus.effective", "0-7\n"),
        ("web/cgroup.controllers", "cpuset cpu"),
        ("web/cpuset.cpus", "\n"),
        ("web/cpuset.cpus.effective", "0-7\n"),
    ];

    #[test]
    fn a_group_of_v2_without_a_set_has_its_parents() {
        let (dir, web) = tree(&TWO);
        let mut group = Cgroup::open(&web).expect("a group");
        assert_eq!(group.version(), Version::Two);
        assert_eq!(group.full().to_string(), "0-7");
        group
            .set(&"0-3".parse().expect("a list"))
            .expect("it is set");
        let text = fs::read_to_string(web.join("cpuset.cpus"));
        assert_eq!(text.expect("a file").trim_end(), "0-3");
        assert_eq!(group.current().expect("a set").to_string(), "0-7");
        let restores = group.restores();
        assert!(matches!(&restores[..], [Restore::Cgroup { cpus, .. }] if cpus.is_empty()));
        // Nobody is ever left without a CPU, nor with the parent's by mistake.
        assert!(group.set(&CpuSet::default()).is_err());
        // The group vanishes with its service.
        drop(dir);
        let error = group
            .set(&"0".parse().expect("a list"))
            .expect_err("no group");
        assert!(error.to_string().contains("is gone"), "{error}");
        assert!(group.current().is_err());
    }

    #[test]
    fn a_set_of_its_own_is_the_most_that_it_gets() {
        let (_dir, web) = tree(&TWO);
        fs::write(web.join("cpuset.cpus"), "4-11\n").expect("a file");
        let group = Cgroup::open(&web).expect("a group");
        assert_eq!(group.full().to_string(), "4-7");
        assert!(matches!(&group.restores()[..], [Restore::Cgroup { cpus, .. }] if cpus == "4-11"));
    }

    #[test]
    fn a_group_of_v1_is_known_by_its_files() {
        let files = [("cpuset.cpus", "0-3\n"), ("web/cpuset.cpus", "0-3\n")];
        let (_dir, web) = tree(&files);
        let mut group = Cgroup::open(&web).expect("a group");
        assert_eq!(group.version(), Version::One);
        group.set(&"1".parse().expect("a list")).expect("it is set");
        assert_eq!(group.current().expect("a set").to_string(), "1");
    }

    #[test]
    fn what_cannot_be_switched_is_refused_with_what_helps() {
        let (dir, web) = tree(&[("web/cgroup.controllers", "")]);
        let refused = |path: &Path| Cgroup::open(path).expect_err("unfit").to_string();
        assert!(refused(dir.path()).contains("whole machine"));
        assert!(refused(&web).contains("+cpuset"), "{}", refused(&web));
        assert!(refused(&dir.path().join("none")).contains("no control group"));
        let (_dir, web) = tree(&TWO);
        fs::write(web.join("cpuset.cpus"), "all\n").expect("a file");
        assert!(refused(&web).contains("neither"));
    }
}
