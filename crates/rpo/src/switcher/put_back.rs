//! Puts back what a switcher found.

use super::affinity::Affinity;
use super::cgroup::{give_back, write};
use super::error::SwitchError;
use super::restore::Restore;
use super::unit::{is_there, set_property};
use super::way::Switcher;

/// Puts this back. What is gone needs nothing put back. Says what of it could not be, in words,
/// where CPUs that were found are not there any more.
///
/// # Errors
/// When the system refuses.
pub fn put_back(restore: &Restore) -> Result<Option<String>, SwitchError> {
    match restore {
        Restore::Cgroup { folder, cpus } => return give_back(folder, cpus),
        Restore::Tasks { processes, cpus } => {
            Affinity::of(processes.clone(), cpus.clone()).follow()?;
        }
        Restore::Smt { path, value } => write(path, value)?,
        Restore::Unit {
            systemctl,
            unit,
            cpus,
        } => match set_property(systemctl, unit, cpus) {
            Err(_) if !is_there(systemctl, unit) => {}
            result => result?,
        },
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_needs_nothing_put_back() {
        let restore = Restore::Cgroup {
            folder: "/nowhere/group".into(),
            cpus: "0".to_owned(),
        };
        assert!(put_back(&restore).is_ok());
        let smt = Restore::Smt {
            path: "/nowhere/control".into(),
            value: "on".to_owned(),
        };
        assert!(put_back(&smt).is_err());
    }
}
