//! `smt/control`: switches the second threads of all cores on and off, for everybody.
//!
//! It is slow, tens of milliseconds a CPU, and what was confined to CPUs that go offline loses
//! them, so it is used only when asked for.

use super::cgroup::write;
use super::error::SwitchError;
use super::restore::Restore;
use super::way::Switcher;
use crate::cpus::CpuSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What the file says where second threads are in use, and where not.
const ON: &str = "on";
const OFF: &str = "off";

/// The whole machine's hardware threads.
#[derive(Debug)]
pub struct SmtControl {
    path: PathBuf,
    online: PathBuf,
    found: String,
    full: CpuSet,
}

impl SmtControl {
    /// Opens it in a sysfs tree.
    ///
    /// # Errors
    /// Where there is none, or it is not on.
    pub fn open(sysfs: &Path) -> Result<SmtControl, SwitchError> {
        let cpus = sysfs.join("devices/system/cpu");
        let path = cpus.join("smt/control");
        let read =
            |path: &Path| fs::read_to_string(path).map_err(SwitchError::system("read", path));
        let found = read(&path)?.trim().to_owned();
        if found != ON {
            return Err(SwitchError::Unfit(format!(
                "{} says {found}: only from `on` can it be switched",
                path.display()
            )));
        }
        let online = cpus.join("online");
        let full: CpuSet = read(&online)?
            .parse()
            .map_err(|error| SwitchError::Unfit(format!("{}: {error}", online.display())))?;
        let present = fs::read_to_string(cpus.join("present")).unwrap_or_default();
        let present: CpuSet = present.parse().unwrap_or_default();
        let off: CpuSet = present.iter().filter(|&cpu| !full.contains(cpu)).collect();
        if !off.is_empty() {
            return Err(SwitchError::Unfit(format!(
                "the CPUs {off} are offline, and {} brings CPUs online that others took offline: \
                 bring them online first, or name the server by --unit or --cgroup",
                path.display()
            )));
        }
        Ok(SmtControl {
            path,
            online,
            found,
            full,
        })
    }
}

impl SmtControl {
    /// The CPUs that are online.
    fn online(&self) -> Result<CpuSet, SwitchError> {
        let text = fs::read_to_string(&self.online);
        let text = text.map_err(SwitchError::system("read", &self.online))?;
        text.parse()
            .map_err(|error| SwitchError::Unfit(format!("{}: {error}", self.online.display())))
    }
}

impl Switcher for SmtControl {
    fn name(&self) -> String {
        "smt/control, the whole machine".to_owned()
    }

    fn full(&self) -> &CpuSet {
        &self.full
    }

    /// All CPUs switch it on, any fewer switch it off: which ones is the kernel's choice.
    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        write(&self.path, if *cpus == self.full { ON } else { OFF })
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        self.online()
    }

    fn possible(&self, cpus: &CpuSet) -> CpuSet {
        // Of all, what is online is no measure while it is off, whoever did that.
        let says = fs::read_to_string(&self.path).unwrap_or_default();
        match *cpus == self.full && says.trim() != ON {
            true => cpus.clone(),
            false => (self.online()).map_or_else(|_| cpus.clone(), |all| cpus.intersection(&all)),
        }
    }

    fn restores(&self) -> Vec<Restore> {
        vec![Restore::Smt {
            path: self.path.clone(),
            value: self.found.clone(),
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switcher::put_back;
    use tempfile::TempDir;

    #[test]
    fn it_is_switched_on_and_off_and_put_back() {
        let dir = TempDir::new().expect("a folder");
        let cpus = dir.path().join("devices/system/cpu");
        fs::create_dir_all(cpus.join("smt")).expect("folders");
        assert!(SmtControl::open(dir.path()).is_err());
        let control = cpus.join("smt/control");
        fs::write(&control, "notsupported\n").expect("a file");
        fs::write(cpus.join("online"), "0-3\n").expect("a file");
        let error = SmtControl::open(dir.path()).expect_err("off").to_string();
        assert!(error.contains("notsupported"), "{error}");
        fs::write(&control, "on\n").expect("a file");
        let mut smt = SmtControl::open(dir.path()).expect("it is on");
        smt.set(&"0-1".parse().expect("a list")).expect("it is set");
        assert!(
            fs::read_to_string(&control)
                .expect("a file")
                .starts_with("off\n")
        );
        let full = smt.full().clone();
        smt.set(&full).expect("it is set");
        assert!(
            fs::read_to_string(&control)
                .expect("a file")
                .starts_with("on\n")
        );
        assert_eq!(smt.current().expect("a list"), full);
        smt.set(&"0-1".parse().expect("a list")).expect("it is set");
        for restore in smt.restores() {
            put_back(&restore).expect("it is put back");
        }
        assert!(
            fs::read_to_string(&control)
                .expect("a file")
                .starts_with("on\n")
        );
    }

    #[test]
    fn who_else_switches_it_off_is_seen_and_none_that_was_off_is_brought_up() {
        let dir = TempDir::new().expect("a folder");
        let cpus = dir.path().join("devices/system/cpu");
        fs::create_dir_all(cpus.join("smt")).expect("folders");
        let has: CpuSet = "0-3".parse().expect("a list");
        fs::write(cpus.join("smt/control"), "on\n").expect("a file");
        fs::write(cpus.join("online"), has.to_string()).expect("a file");
        fs::write(cpus.join("present"), format!("{has},100")).expect("a file");
        let error = SmtControl::open(dir.path()).expect_err("one is off");
        assert!(
            error.to_string().contains("CPUs 100 are offline"),
            "{error}"
        );
        fs::write(cpus.join("present"), has.to_string()).expect("a file");
        let mut smt = SmtControl::open(dir.path()).expect("all are on");
        assert_eq!(smt.current().expect("a list"), smt.possible(&has));
        fs::write(cpus.join("smt/control"), "off\n").expect("a file");
        let fewer: CpuSet = has.iter().take(1).collect();
        fs::write(cpus.join("online"), fewer.to_string()).expect("a file");
        assert_ne!(smt.current().expect("a list"), smt.possible(&has));
        smt.set(&fewer).expect("it is set");
        assert_eq!(smt.current().expect("a list"), smt.possible(&fewer));
    }
}
