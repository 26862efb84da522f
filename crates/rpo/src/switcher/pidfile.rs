//! The affinity of the process whose number is in a file, also after the server was started again.
//!
//! The file is read again at each look. A process that is none of those known is the server from
//! then on, if it has the CPUs that the server had before, or those that it was last given: one
//! that descends from the server before took after it. Others are refused: which CPUs are one a
//! core was decided for the first server's.
//!
//! Nothing of it is changed by the look, since it may be another controller's; and then it has all
//! its CPUs until it is set again: what puts back its own has to be kept before.
//!
//! Those before it may go on for long (a server that starts a new one and lets the old one serve
//! the connections that it has): they are given all their CPUs, and left alone from then on.

use super::affinity::Affinity;
use super::error::SwitchError;
use super::process::Process;
use super::restore::Restore;
use super::way::{Followed, Switcher, online};
use crate::cpus::CpuSet;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A process by its file.
#[derive(Debug)]
pub struct Pidfile {
    file: PathBuf,
    tasks: Affinity,
    full: CpuSet,
    given: CpuSet,
    /// The process that is the server from the next look for what is new on.
    next: Option<Process>,
}

impl Pidfile {
    /// Opens the process whose number is in this file, with its descendants.
    ///
    /// # Errors
    /// When the file has no number, or as [`Affinity::open`].
    pub fn open(file: &Path) -> Result<Pidfile, SwitchError> {
        let tasks = Affinity::open(read(file)?)?;
        let full = tasks.full().clone();
        Ok(Pidfile {
            file: file.to_owned(),
            given: full.clone(),
            full,
            tasks,
            next: None,
        })
    }

    /// The process that a file names, where one of that number runs.
    #[must_use]
    pub fn named(file: &Path) -> Option<Process> {
        read(file).ok().and_then(Process::of)
    }

    /// Takes the process that was found, if one was and the file still names it; says whether that
    /// is so.
    fn take_next(&mut self) -> bool {
        let next = self.next.take();
        let Some(process) = next.filter(|&next| Pidfile::named(&self.file) == Some(next)) else {
            return false;
        };
        self.release();
        self.tasks = Affinity::of(BTreeSet::from([process]), self.full.clone());
        true
    }

    /// Gives those that were the server all their CPUs.
    fn release(&mut self) {
        let mut before = Affinity::of(self.tasks.known().clone(), self.full.clone());
        // Whoever of them ended needs nothing.
        if let Err(error) = before.follow() {
            tracing::warn!("processes that were the server before may keep fewer CPUs: {error}");
        }
    }
}

/// The number in a file.
fn read(file: &Path) -> Result<u32, SwitchError> {
    let text = fs::read_to_string(file).map_err(SwitchError::system("read", file))?;
    text.trim()
        .parse()
        .map_err(|_| SwitchError::Unfit(format!("{} has no number of a process", file.display())))
}

impl Switcher for Pidfile {
    fn name(&self) -> String {
        format!("{}, of {}", self.tasks.name(), self.file.display())
    }

    fn full(&self) -> &CpuSet {
        &self.full
    }

    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        self.given = cpus.clone();
        self.tasks.set(cpus)
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        self.tasks.current()
    }

    fn look(&mut self) -> Result<bool, SwitchError> {
        self.next = None;
        // While a server starts again there may be no file, or the last one's: nothing is new.
        let named = Pidfile::named(&self.file);
        let Some(process) = named.filter(|&process| !self.tasks.has(process)) else {
            return Ok(false);
        };
        let opened = Affinity::open(process.pid)?;
        let own = opened.full();
        if *own != online(&self.full) && *own != online(&self.given) {
            return Err(SwitchError::Unfit(format!(
                "the server was started again as process {}, with the CPUs {own} in place of {}: \
                 start the controller again",
                process.pid, self.full
            )));
        }
        self.next = Some(process);
        Ok(true)
    }

    fn follow(&mut self) -> Result<Followed, SwitchError> {
        let is_replaced = self.take_next();
        let followed = self.tasks.follow()?;
        Ok(Followed {
            is_other: followed.is_other | is_replaced,
            is_replaced,
            ..followed
        })
    }

    fn restores(&self) -> Vec<Restore> {
        self.tasks.restores()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use tempfile::TempDir;

    fn idle() -> Child {
        Command::new("sleep").arg("60").spawn().expect("a process")
    }

    fn end(mut child: Child) {
        child.kill().and_then(|()| child.wait()).expect("it ends");
    }

    /// What is found, and taken.
    fn follow(opened: &mut Pidfile) -> Followed {
        let is_another = opened.look().expect("it is as it was");
        let followed = opened.follow().expect("/proc");
        assert_eq!(followed.is_replaced, is_another);
        followed
    }

    #[test]
    fn a_server_that_is_started_again_is_followed() {
        let dir = TempDir::new().expect("a folder");
        let file = dir.path().join("pid");
        assert!(Pidfile::open(&file).is_err());
        let (first, second) = (idle(), idle());
        fs::write(&file, format!("{}\n", first.id())).expect("a file");
        let mut opened = Pidfile::open(&file).expect("it runs");
        let full = opened.full().clone();
        let one: CpuSet = full.iter().take(1).collect();
        follow(&mut opened);
        opened.set(&one).expect("this user's own");
        end(first);
        assert!(opened.set(&one).is_err(), "nobody is left");
        // Between the two there is no file, and then one with nothing in it.
        fs::remove_file(&file).expect("it is there");
        assert!(!follow(&mut opened).is_other);
        fs::write(&file, "").expect("a file");
        assert!(!follow(&mut opened).is_other);
        fs::write(&file, second.id().to_string()).expect("a file");
        // Not before it is known whether it is this one's.
        assert!(!opened.follow().expect("/proc").is_other);
        let followed = follow(&mut opened);
        assert!(followed.is_other && !followed.was_changed, "{followed:?}");
        // Not before what has to be put back of it can be kept.
        assert!(followed.is_replaced);
        assert_eq!(opened.current().expect("it runs"), full);
        let tasks = opened.restores();
        assert!(tasks[0].to_string().contains(&format!("{}:", second.id())));
        assert_eq!(follow(&mut opened), Followed::default());
        opened.set(&one).expect("it runs");
        assert_eq!(opened.current().expect("it runs"), one);
        opened.set(&full).expect("it runs");
        end(second);
    }

    #[test]
    fn one_that_goes_on_beside_the_next_has_all_its_cpus_again() {
        let dir = TempDir::new().expect("a folder");
        let file = dir.path().join("pid");
        let (first, second) = (idle(), idle());
        fs::write(&file, first.id().to_string()).expect("a file");
        let mut opened = Pidfile::open(&file).expect("it runs");
        let full = opened.full().clone();
        let one: CpuSet = full.iter().take(1).collect();
        follow(&mut opened);
        opened.set(&one).expect("this user's own");
        fs::write(&file, second.id().to_string()).expect("a file");
        follow(&mut opened);
        opened.set(&one).expect("it runs");
        let cpus = |child: &Child| Affinity::open(child.id()).expect("it runs").full().clone();
        assert_eq!((cpus(&first), cpus(&second)), (full, one));
        end(first);
        end(second);
    }

    #[test]
    fn one_with_other_cpus_is_refused() {
        let dir = TempDir::new().expect("a folder");
        let file = dir.path().join("pid");
        let (first, second) = (idle(), idle());
        fs::write(&file, first.id().to_string()).expect("a file");
        let mut opened = Pidfile::open(&file).expect("it runs");
        let first_cpu: CpuSet = opened.full().iter().take(1).collect();
        if first_cpu == *opened.full() {
            eprintln!("not tried: one CPU");
        } else {
            let mut other = Affinity::open(second.id()).expect("it runs");
            other.follow().expect("/proc");
            other.set(&first_cpu).expect("this user's own");
            fs::write(&file, second.id().to_string()).expect("a file");
            let error = opened.look().expect_err("other CPUs").to_string();
            assert!(error.contains("start the controller again"), "{error}");
        }
        end(first);
        end(second);
    }
}
