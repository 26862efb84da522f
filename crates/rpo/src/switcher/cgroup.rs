//! A control group's `cpuset.cpus`: one write moves all tasks of the group.
//!
//! ```text
//!                      cgroup v2                  cgroup v1
//! what is written      cpuset.cpus                cpuset.cpus
//! what is in effect    cpuset.cpus.effective      cpuset.effective_cpus, else cpuset.cpus
//! bounded by           parent's .effective        parent's
//! empty means          as the parent              not allowed with tasks
//! more than parent's   is kept until it has them  is refused as a whole
//! a CPU goes offline   comes back with it         is gone for good, in each group
//! ```

use super::error::SwitchError;
use super::pinned;
use super::restore::Restore;
use super::way::{Switcher, online};
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
    /// Opens a group by its folder below a mount of cgroup v2 or v1, however that is named.
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
        // Who puts back what was found works elsewhere, and `.` names no group above it.
        let folder = &fs::canonicalize(folder).map_err(SwitchError::system("read", folder))?;
        let parent = folder.parent().filter(|parent| is_group(parent));
        let Some(parent) = parent else {
            return Err(SwitchError::Unfit(format!(
                "{} is the root of all control groups: that is the whole machine; name a group of \
                 the server's own",
                folder.display()
            )));
        };
        let version = version(folder);
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

    fn check(&self) -> Result<(), SwitchError> {
        pinned::check(&self.folder, &self.full)
    }

    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        // In v2 an empty set means all of the parent's.
        if cpus.is_empty() {
            return Err(SwitchError::Unfit("a server needs a CPU".to_owned()));
        }
        let path = self.folder.join("cpuset.cpus");
        if self.version == Version::Two {
            return write(&path, &cpus.to_string());
        }
        let above = above(&self.folder, Version::One)?;
        let cpus = cpus.intersection(&above);
        if cpus.is_empty() {
            return Err(SwitchError::Unfit(format!(
                "{} cannot have any of its CPUs: the group above has {above} now",
                path.display()
            )));
        }
        write(&path, &cpus.to_string())
    }

    fn possible(&self, cpus: &CpuSet) -> CpuSet {
        let Ok(above) = above(&self.folder, self.version) else {
            return online(cpus);
        };
        match cpus.intersection(&above) {
            // A group of v2 whose CPUs are all gone has its parent's.
            none if none.is_empty() => above,
            some => some,
        }
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

/// Gives a group back what it had; says what of it could not be, in words, where that is so. What
/// is gone needs nothing put back.
pub(super) fn give_back(folder: &Path, found: &str) -> Result<Option<String>, SwitchError> {
    let path = folder.join("cpuset.cpus");
    let Err(error) = write(&path, found) else {
        return Ok(None);
    };
    // One that cannot be looked at may be there.
    if path.try_exists().is_ok_and(|is_there| !is_there) {
        return Ok(None);
    }
    // In v1 a group, and the one above, lose a CPU that goes offline for good.
    let rest = match version(folder) {
        Version::One => parse(&path, found)?.intersection(&above(folder, Version::One)?),
        Version::Two => CpuSet::default(),
    };
    if rest.is_empty() {
        return Err(error);
    }
    write(&path, &rest.to_string())?;
    Ok(Some(format!(
        "{} had the CPUs {found} and has {rest} again: the others are offline, or the group above \
         has lost them",
        folder.display()
    )))
}

/// The CPUs that the group above lets a group have now.
fn above(folder: &Path, version: Version) -> Result<CpuSet, SwitchError> {
    effective(folder.parent().unwrap_or(folder), version)
}

/// Which hierarchy a group is in.
fn version(folder: &Path) -> Version {
    match folder.join("cgroup.controllers").exists() {
        true => Version::Two,
        false => Version::One,
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
    use std::io;
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
    fn what_v2_keeps_of_cpus_that_are_gone_is_no_others_doing() {
        let (dir, web) = tree(&TWO);
        let group = Cgroup::open(&web).expect("a group");
        let possible = |cpus: &str| group.possible(&cpus.parse().expect("a list")).to_string();
        assert_eq!(possible("0-3"), "0-3");
        fs::write(dir.path().join("cpuset.cpus.effective"), "0-6\n").expect("a file");
        assert_eq!(
            (possible("0-7"), possible("7")),
            ("0-6".into(), "0-6".into())
        );
    }

    /// A group of v1 with one below it, of the kernel's own; removed when dropped.
    struct Real(PathBuf);

    impl Real {
        fn make() -> io::Result<Real> {
            let mount = super::super::mounts::cpuset1();
            let mount = mount.ok_or(io::ErrorKind::NotFound)?;
            let name = format!("rhythm-rpo-test-{}", std::process::id());
            let made = Real(mount.join(name));
            let mut above = mount;
            for folder in [made.0.clone(), made.below()] {
                fs::create_dir(&folder)?;
                for file in ["cpuset.mems", "cpuset.cpus"] {
                    let text = fs::read_to_string(above.join(file))?;
                    fs::write(folder.join(file), text)?;
                }
                above = folder;
            }
            Ok(made)
        }

        fn below(&self) -> PathBuf {
            self.0.join("web")
        }
    }

    impl Drop for Real {
        fn drop(&mut self) {
            let _ = fs::remove_dir(self.below());
            let _ = fs::remove_dir(&self.0);
        }
    }

    /// As when a CPU goes offline: the kernel takes it from the group above, too.
    #[test]
    fn a_group_of_v1_that_lost_a_cpu_gets_the_others_back() {
        let real = match Real::make() {
            Ok(real) => real,
            Err(error) => {
                eprintln!("not tried: no group of v1 can be made here: {error}");
                return;
            }
        };
        let (web, text) = (real.below(), |path: &Path| fs::read_to_string(path));
        let has = || {
            text(&web.join("cpuset.cpus"))
                .expect("a list")
                .trim()
                .to_owned()
        };
        let mut group = Cgroup::open(&web).expect("a group");
        let full = group.full().clone();
        let (one, found) = (full.first().expect("a CPU").to_string(), full.to_string());
        if full.len() < 2 {
            eprintln!("not tried: one CPU");
            return;
        }
        let first: CpuSet = one.parse().expect("a list");
        group.set(&first).expect("it is set");
        fs::write(real.0.join("cpuset.cpus"), &one).expect("none below has more");
        group.set(&full).expect("as much of it as there is");
        assert_eq!(group.current().expect("a set"), group.possible(&full));
        let left_out = give_back(&web, &found).expect("as much of it as there is");
        let left_out = left_out.expect("it is said");
        assert!(
            left_out.contains(&format!("{found} and has {one} again")),
            "{left_out}"
        );
        assert_eq!(has(), one);
        // Back again, it gets it again.
        fs::write(real.0.join("cpuset.cpus"), &found).expect("the root has them");
        group.set(&full).expect("all of it");
        assert_eq!(
            (has(), group.current().expect("a set")),
            (found.clone(), full)
        );
        assert_eq!(give_back(&web, &found).expect("all of it"), None);
    }

    #[test]
    fn threads_with_cpus_of_their_own_are_left_alone_where_that_would_be_forgotten() {
        let (dir, web) = tree(&TWO);
        let mut own = std::process::Command::new("sleep");
        let mut process = own.arg("60").spawn().expect("a process");
        // In a group below it: all that it may have, and then more.
        fs::create_dir(web.join("below")).expect("a group");
        fs::write(web.join("below/cgroup.procs"), process.id().to_string()).expect("a file");
        let has = super::super::affinity::get(process.id())
            .expect("it runs")
            .expect("it runs");
        let opened = |group: String| {
            fs::write(dir.path().join("cpuset.cpus.effective"), group).expect("a file");
            Cgroup::open(&web).and_then(|group| pinned::refuse(&web, group.full()))
        };
        let (same, more) = (opened(has.to_string()), opened(format!("{has},1000")));
        process
            .kill()
            .and_then(|()| process.wait())
            .expect("it ends");
        same.expect("none is pinned");
        let error = more.expect_err("one is").to_string();
        assert!(
            error.contains("CPUs of its own") && error.contains("6.2"),
            "{error}"
        );
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
