//! A systemd unit's control group: the set is written to the group itself, which takes a fraction
//! of a millisecond; systemd is asked, by `systemctl`, only where the group is, and to switch the
//! controller on (`AllowedCPUs=`) where it is off. Who only watches asks where the group is, and
//! changes nothing ([`cpus`]).
//!
//! What `systemctl set-property` writes is the whole list, at the end too: systemd leaves the old
//! set in effect when the property is cleared (systemd 43846).

use super::cgroup::{Cgroup, Version};
use super::error::SwitchError;
use super::mounts;
use super::restore::Restore;
use super::way::Switcher;
use crate::cpus::CpuSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Opens the group of a unit, such as `apache2.service`, asking this `systemctl`.
///
/// # Errors
/// When there is no such unit, it does not run, or systemd refuses to switch the controller on.
pub fn open(systemctl: &Path, unit: &str) -> Result<Cgroup, SwitchError> {
    open_in(&mounts::cgroup2().ok_or_else(no_mount)?, systemctl, unit)
}

/// The CPUs that a unit has, asking this `systemctl`; nothing is changed, whether its controller is
/// on or off.
///
/// # Errors
/// When there is no such unit, or it does not run.
pub fn cpus(systemctl: &Path, unit: &str) -> Result<CpuSet, SwitchError> {
    cpus_in(&mounts::cgroup2().ok_or_else(no_mount)?, systemctl, unit)
}

fn cpus_in(mount: &Path, systemctl: &Path, unit: &str) -> Result<CpuSet, SwitchError> {
    let folder = group(mount, systemctl, unit)?;
    if folder.join("cpuset.cpus").exists() {
        return Ok(Cgroup::open(&folder)?.full().clone());
    }
    // Off: as the nearest group above that has a set.
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

fn open_in(mount: &Path, systemctl: &Path, unit: &str) -> Result<Cgroup, SwitchError> {
    let folder = group(mount, systemctl, unit)?;
    let is_off = folder.exists() && !folder.join("cpuset.cpus").exists();
    if !is_off {
        return Cgroup::open(&folder);
    }
    // All CPUs that there can be: systemd intersects them with those of the groups above.
    let all = fs::read_to_string(mount.join("cpuset.cpus.effective"));
    let all = all
        .map_err(SwitchError::system("read", mount))?
        .trim()
        .to_owned();
    set_property(systemctl, unit, &all)?;
    let opened = Cgroup::open(&folder)?;
    debug_assert_eq!(opened.version(), Version::Two);
    Ok(opened.and(Restore::Unit {
        systemctl: systemctl.to_owned(),
        unit: unit.to_owned(),
        cpus: all,
    }))
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

    #[test]
    fn the_controller_is_switched_on_and_all_is_put_back() {
        let (dir, systemctl) = system();
        let mut group = open_in(dir.path(), &systemctl, "web.service").expect("a unit");
        let told = || fs::read_to_string(dir.path().join("told")).unwrap_or_default();
        let command = "set-property --runtime -- web.service AllowedCPUs=0-3\n";
        assert_eq!(told(), command);
        group
            .set(&"0-1".parse().expect("a list"))
            .expect("it is set");
        for restore in group.restores() {
            put_back(&restore).expect("it is put back");
        }
        assert_eq!(told(), command.repeat(2));
        // Where it is on already, systemd is not asked to.
        let group = open_in(dir.path(), &systemctl, "web.service").expect("a unit");
        assert_eq!(group.restores().len(), 1);
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
        let watched = |unit| cpus_in(dir.path(), &systemctl, unit);
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
            open_in(dir.path(), &systemctl, unit)
                .expect_err("none")
                .to_string()
        };
        assert!(refused("other.service").contains("does it run"));
        assert!(refused("--help").contains("no name of a unit"));
        assert!(open_in(dir.path(), Path::new("/nowhere/systemctl"), "web.service").is_err());
    }
}
