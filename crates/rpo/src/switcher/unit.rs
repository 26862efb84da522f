//! A systemd unit's control group: the set is written to the group itself, which takes a fraction
//! of a millisecond; systemd is asked, by `systemctl`, only where the group is, and to switch the
//! controller on (`AllowedCPUs=`) where it is off. That comes last of all before the first switch
//! ([`Switcher::make_ready`]): who only watches, or finds nothing to gain, has changed nothing.
//!
//! What `systemctl set-property` writes is the whole list, at the end too: systemd leaves the old
//! set in effect when the property is cleared (systemd 43846).

use super::cgroup::Cgroup;
use super::error::SwitchError;
use super::mounts;
use super::pinned;
use super::restore::Restore;
use super::way::{Switcher, online};
use crate::cpus::CpuSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A unit's group, whether its controller is on yet or not.
#[derive(Debug)]
pub struct Unit {
    systemctl: PathBuf,
    unit: String,
    folder: PathBuf,
    full: CpuSet,
    /// The group, once its controller is on.
    group: Option<Cgroup>,
    /// What systemd is told to have it on: all CPUs that there are. It intersects them with those
    /// of the groups above.
    all: String,
}

impl Unit {
    /// Finds the group of a unit, such as `apache2.service`, asking this `systemctl`; nothing is
    /// changed, whether its controller is on or off.
    ///
    /// # Errors
    /// When there is no such unit, or it does not run.
    pub fn open(systemctl: &Path, unit: &str) -> Result<Unit, SwitchError> {
        Unit::open_in(&mounts::cgroup2().ok_or_else(no_mount)?, systemctl, unit)
    }

    fn open_in(mount: &Path, systemctl: &Path, unit: &str) -> Result<Unit, SwitchError> {
        let folder = group(mount, systemctl, unit)?;
        let is_off = folder.exists() && !folder.join("cpuset.cpus").exists();
        let group = match is_off {
            true => None,
            false => Some(Cgroup::open(&folder)?),
        };
        let full = match &group {
            Some(group) => group.full().clone(),
            None => above(mount, &folder)?,
        };
        let file = mount.join("cpuset.cpus.effective");
        let all = fs::read_to_string(&file).map_err(SwitchError::system("read", &file))?;
        Ok(Unit {
            systemctl: systemctl.to_owned(),
            unit: unit.to_owned(),
            folder,
            full,
            group,
            all: all.trim().to_owned(),
        })
    }

    fn off(&self) -> SwitchError {
        let folder = self.folder.display();
        SwitchError::Unfit(format!(
            "{folder} has no cpuset.cpus: its controller is off"
        ))
    }
}

/// The folder of a unit's group, asking this `systemctl`.
///
/// # Errors
/// When there is no such unit, or it does not run.
pub fn folder(systemctl: &Path, unit: &str) -> Result<PathBuf, SwitchError> {
    group(&mounts::cgroup2().ok_or_else(no_mount)?, systemctl, unit)
}

impl Switcher for Unit {
    fn name(&self) -> String {
        match &self.group {
            Some(group) => group.name(),
            None => format!("cgroup v2 {}, not yet with cpusets", self.folder.display()),
        }
    }

    fn full(&self) -> &CpuSet {
        &self.full
    }

    fn check(&self) -> Result<(), SwitchError> {
        // Where the controller is off, too: to switch it on gives all threads the whole set.
        pinned::check(&self.folder, &self.full)
    }

    fn make_ready(&mut self) -> Result<(), SwitchError> {
        if self.group.is_some() {
            return Ok(());
        }
        set_property(&self.systemctl, &self.unit, &self.all)?;
        let opened = Cgroup::open(&self.folder)?;
        if *opened.full() != self.full {
            return Err(SwitchError::Unfit(format!(
                "{} has the CPUs {} now, and had {}: start again",
                self.unit,
                opened.full(),
                self.full
            )));
        }
        let restore = self.restores().remove(0);
        self.group = Some(opened.and(restore));
        Ok(())
    }

    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        let off = self.off();
        self.group.as_mut().ok_or(off)?.set(cpus)
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        let off = self.off();
        self.group.as_mut().ok_or(off)?.current()
    }

    fn possible(&self, cpus: &CpuSet) -> CpuSet {
        match &self.group {
            Some(group) => group.possible(cpus),
            None => online(cpus),
        }
    }

    fn restores(&self) -> Vec<Restore> {
        match &self.group {
            Some(group) => group.restores(),
            None => vec![Restore::Unit {
                systemctl: self.systemctl.clone(),
                unit: self.unit.clone(),
                cpus: self.all.clone(),
            }],
        }
    }
}

/// What a group without a controller has: as the nearest above that has a set.
fn above(mount: &Path, folder: &Path) -> Result<CpuSet, SwitchError> {
    let above = folder
        .ancestors()
        .take_while(|above| above.starts_with(mount));
    let mut files = above.map(|above| above.join("cpuset.cpus.effective"));
    let file = files.find(|file| file.exists());
    let file =
        file.ok_or_else(|| SwitchError::Unfit("cgroup v2 has no cpusets here".to_owned()))?;
    let text = fs::read_to_string(&file).map_err(SwitchError::system("read", &file))?;
    text.trim()
        .parse()
        .map_err(|error| SwitchError::Unfit(format!("{}: {error}", file.display())))
}

fn no_mount() -> SwitchError {
    SwitchError::Unfit("cgroup v2 is not mounted here: name a group or a process".to_owned())
}

/// The folder of a unit's group.
fn group(mount: &Path, systemctl: &Path, unit: &str) -> Result<PathBuf, SwitchError> {
    // A name that looks like an option would be taken for one.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@:\\".contains(&byte);
    if unit.starts_with('-') || !unit.bytes().all(is_name) || unit.is_empty() {
        return Err(SwitchError::Unfit(format!("`{unit}` is no name of a unit")));
    }
    let output = (Command::new(systemctl))
        .args(["show", "--property=ControlGroup", "--value", "--", unit])
        .stdin(Stdio::null())
        .output()
        .map_err(SwitchError::system("run", systemctl))?;
    let group = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let group = group.trim_start_matches('/');
    if !output.status.success() || group.is_empty() || group.split('/').any(|part| part == "..") {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(SwitchError::Unfit(format!(
            "{unit} has no control group: does it run? {said}"
        )));
    }
    Ok(mount.join(group))
}

/// Has systemd give a unit these CPUs until the next boot.
pub(super) fn set_property(systemctl: &Path, unit: &str, cpus: &str) -> Result<(), SwitchError> {
    let output = (Command::new(systemctl))
        .args([
            "set-property",
            "--runtime",
            "--",
            unit,
            &format!("AllowedCPUs={cpus}"),
        ])
        .stdin(Stdio::null())
        .output()
        .map_err(SwitchError::system("run", systemctl))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(SwitchError::Unfit(format!(
        "systemd does not give {unit} the CPUs {cpus}: {said}"
    )))
}

/// Whether systemd has a unit of this name; it has where that cannot be told.
pub(super) fn is_there(systemctl: &Path, unit: &str) -> bool {
    let output = (Command::new(systemctl))
        .args(["show", "--property=LoadState", "--value", "--", unit])
        .stdin(Stdio::null())
        .output();
    !output.is_ok_and(|output| output.stdout.trim_ascii() == b"not-found")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switcher::put_back;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    /// A systemctl of a shell's, with a tree of groups beside it, whose `set-property` switches the
    /// controller on and says what it was told.
    fn system() -> (TempDir, PathBuf) {
        let dir = TempDir::new().expect("a folder");
        let web = dir.path().join("system.slice/web.service");
        fs::create_dir_all(&web).expect("folders");
        for folder in [dir.path(), &dir.path().join("system.slice"), &web] {
            fs::write(folder.join("cgroup.procs"), "").expect("a file");
            fs::write(folder.join("cgroup.controllers"), "cpuset").expect("a file");
            fs::write(folder.join("cpuset.cpus.effective"), "0-3\n").expect("a file");
        }
        let script = format!(
            "#!/bin/sh\ncd {}\ncase \"$1 $5\" in\n'show web.service') echo \
             /system.slice/web.service;;\nshow*) echo;;\n*) echo \"$@\" >> told; echo 0-3 > \
             system.slice/web.service/cpuset.cpus;;\nesac\n",
            dir.path().display()
        );
        let systemctl = dir.path().join("systemctl");
        fs::write(&systemctl, script).expect("a file");
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).expect("its mode");
        (dir, systemctl)
    }

    fn opened(dir: &TempDir, systemctl: &Path) -> Unit {
        Unit::open_in(dir.path(), systemctl, "web.service").expect("a unit")
    }

    #[test]
    fn the_controller_is_switched_on_last_and_all_is_put_back() {
        let (dir, systemctl) = system();
        let mut unit = opened(&dir, &systemctl);
        let told = || fs::read_to_string(dir.path().join("told")).unwrap_or_default();
        assert_eq!(
            told(),
            "",
            "whoever finds nothing to gain has changed nothing"
        );
        let fewer: CpuSet = "0-1".parse().expect("a list");
        assert!(unit.set(&fewer).is_err());
        // What is kept before it is on puts it back.
        assert!(matches!(&unit.restores()[..], [Restore::Unit { cpus, .. }] if cpus == "0-3"));
        unit.make_ready().expect("it can be on");
        let command = "set-property --runtime -- web.service AllowedCPUs=0-3\n";
        assert_eq!(told(), command);
        unit.make_ready().expect("it is on");
        assert_eq!(told(), command);
        unit.set(&fewer).expect("it is set");
        for restore in unit.restores() {
            put_back(&restore).expect("it is put back");
        }
        assert_eq!(told(), command.repeat(2));
        // Where it is on already, systemd is not asked to.
        let mut unit = opened(&dir, &systemctl);
        unit.make_ready().expect("it is on");
        assert_eq!((unit.restores().len(), told()), (1, command.repeat(2)));
    }

    #[test]
    fn threads_with_cpus_of_their_own_are_found_while_the_controller_is_off() {
        let (dir, systemctl) = system();
        let mut own = Command::new("sleep");
        let mut process = own.arg("60").spawn().expect("a process");
        let web = dir.path().join("system.slice/web.service");
        fs::write(web.join("cgroup.procs"), process.id().to_string()).expect("a file");
        let has = super::super::affinity::get(process.id())
            .expect("it runs")
            .expect("it runs");
        let more = format!("{has},1000\n");
        fs::write(web.join("cpuset.cpus.effective"), more).expect("a file");
        let unit = opened(&dir, &systemctl);
        let refused = pinned::refuse(&unit.folder, &unit.full);
        process
            .kill()
            .and_then(|()| process.wait())
            .expect("it ends");
        let error = refused.expect_err("one is").to_string();
        assert!(error.contains("CPUs of its own"), "{error}");
        assert!(unit.group.is_none() && !dir.path().join("told").exists());
    }

    #[test]
    fn other_cpus_than_were_found_are_told() {
        let (dir, systemctl) = system();
        let mut unit = opened(&dir, &systemctl);
        let slice = dir.path().join("system.slice");
        fs::write(slice.join("cpuset.cpus.effective"), "0-2\n").expect("a file");
        let error = unit.make_ready().expect_err("other CPUs").to_string();
        assert!(error.contains("0-2 now, and had 0-3"), "{error}");
    }

    #[test]
    fn a_unit_that_is_gone_needs_nothing_put_back() {
        let (dir, systemctl) = system();
        let script = |state: &str| {
            let script = format!("#!/bin/sh\n[ $1 = show ] || exit 1\necho {state}\n");
            fs::write(&systemctl, script).expect("a file");
        };
        let restore = Restore::Unit {
            systemctl: systemctl.clone(),
            unit: "web.service".to_owned(),
            cpus: "0-3".to_owned(),
        };
        script("not-found");
        assert!(put_back(&restore).is_ok());
        script("loaded");
        assert!(put_back(&restore).is_err());
        drop(dir);
        assert!(put_back(&restore).is_err());
    }

    #[test]
    fn who_only_watches_changes_nothing() {
        let (dir, systemctl) = system();
        let told = || fs::read_to_string(dir.path().join("told")).unwrap_or_default();
        let watched = |unit| {
            let unit = Unit::open_in(dir.path(), &systemctl, unit)?;
            Ok::<_, SwitchError>(unit.full().clone())
        };
        // Off: the set of the group above counts.
        let web = dir.path().join("system.slice/web.service");
        fs::remove_file(web.join("cpuset.cpus.effective")).expect("it is there");
        fs::write(
            dir.path().join("system.slice/cpuset.cpus.effective"),
            "0-2\n",
        )
        .expect("a file");
        assert_eq!(watched("web.service").expect("a unit").to_string(), "0-2");
        assert_eq!(told(), "");
        // On: its own does.
        fs::write(web.join("cpuset.cpus"), "1-2\n").expect("a file");
        fs::write(web.join("cpuset.cpus.effective"), "1-2\n").expect("a file");
        assert_eq!(watched("web.service").expect("a unit").to_string(), "1-2");
        assert_eq!(told(), "");
        assert!(watched("other.service").is_err());
    }

    #[test]
    fn a_unit_that_does_not_run_is_told() {
        let (dir, systemctl) = system();
        let refused = |unit| {
            Unit::open_in(dir.path(), &systemctl, unit)
                .expect_err("none")
                .to_string()
        };
        assert!(refused("other.service").contains("does it run"));
        assert!(refused("--help").contains("no name of a unit"));
        let on = dir.path().join("system.slice/web.service/cpuset.cpus");
        fs::write(on, "0-3\n").expect("a file");
        fs::remove_file(dir.path().join("cpuset.cpus.effective")).expect("it is there");
        let said = refused("web.service");
        assert!(said.contains("cpuset.cpus.effective"), "{said}");
        let nowhere = Path::new("/nowhere/systemctl");
        assert!(Unit::open_in(dir.path(), nowhere, "web.service").is_err());
    }
}
