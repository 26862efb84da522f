//! Processes that end, and temporary folders that go, with what made them: when they are dropped,
//! and where a signal ends this program, which drops nothing ([`leave`]).

use super::error::ReproduceError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Folders that may be left of programs that were killed and had the same number.
const LEFT_MAX: u32 = 1000;

/// A process that was killed is waited for no longer.
const END_MAX: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// What is there now.
struct Now {
    /// By their numbers; another process may have a number later, but none is another's file. And
    /// what ends each.
    processes: BTreeMap<u32, (OwnedFd, Signal)>,
    folders: BTreeSet<PathBuf>,
}

static NOW: Mutex<Now> = Mutex::new(Now {
    processes: BTreeMap::new(),
    folders: BTreeSet::new(),
});

fn now() -> MutexGuard<'static, Now> {
    NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this program with this code, and before it all processes that it has started to reproduce
/// something; their folders go, too. For signals.
pub fn leave(code: i32) -> ! {
    // Held to the end: no thread starts another.
    let now = now();
    for (process, signal) in now.processes.values() {
        // It may have ended by itself.
        let _ = pidfd_send_signal(process, *signal);
    }
    for (process, _) in now.processes.values() {
        wait(process);
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    for folder in &now.folders {
        // A thread of ours may be making one.
        let _ = (0..3).any(|_| fs::remove_dir_all(folder).is_ok() || !folder.exists());
    }
    std::process::exit(code)
}

/// Waits until a process has ended, but for no longer than that may take. Then it makes no more
/// files in a folder.
fn wait(process: &OwnedFd) {
    let mut end = [PollFd::new(process, PollFlags::IN)];
    let _ = poll(&mut end, Some(&END_MAX));
}

/// A process that ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> io::Result<Process> {
        Process::start_to_end_by(command, Signal::KILL)
    }

    /// One that is asked to end at once, by SIGQUIT, and killed only if it does not: it has
    /// processes of its own, or something that the system keeps.
    pub(crate) fn start_gently(command: &mut Command) -> io::Result<Process> {
        Process::start_to_end_by(command, Signal::QUIT)
    }

    /// The same by SIGTERM: for shells, which cannot catch SIGQUIT where it was ignored before
    /// them, as it is in what a script starts in the background.
    pub(crate) fn start_shell(command: &mut Command) -> io::Result<Process> {
        Process::start_to_end_by(command, Signal::TERM)
    }

    fn start_to_end_by(command: &mut Command, signal: Signal) -> io::Result<Process> {
        let mut now = now();
        let mut child = command.spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(file) => {
                now.processes.insert(child.id(), (file, signal));
                Ok(Process(child))
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    pub(crate) fn end(&mut self) {
        if let Some((process, signal)) = now().processes.get(&self.0.id())
            && *signal != Signal::KILL
        {
            let _ = pidfd_send_signal(process, *signal);
            wait(process);
        }
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        now().processes.remove(&self.0.id());
    }
}

/// A temporary folder that goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Result<Folder, ReproduceError> {
        let mut now = now();
        let mut number = 0;
        loop {
            let name = format!("rhythm-reproduce-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    now.folders.insert(path.clone());
                    return Ok(Folder(path));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < LEFT_MAX => {
                    number += 1;
                }
                Err(error) => return Err(ReproduceError::file(&path)(error)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        now().folders.remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_processes_go_and_none_is_in_the_way_of_another() {
        let [one, two] = [Folder::new(), Folder::new()].map(|folder| folder.expect("a folder"));
        assert!(one.path() != two.path() && two.path().is_dir());
        let mut sleep = Command::new("sleep");
        let process = Process::start(sleep.arg("60")).expect("there is sleep");
        let pid = process.0.id();
        assert!(now().processes.contains_key(&pid));
        let path = two.path().to_owned();
        drop((process, one, two));
        assert!(!path.exists() && !now().processes.contains_key(&pid));
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn who_is_to_end_gently_does_and_whoever_does_not_is_killed() {
        for (script, expected) in [
            ("trap 'exit 7' QUIT; while :; do sleep 0.01; done", Some(7)),
            ("trap '' QUIT; while :; do sleep 0.01; done", None),
        ] {
            let mut command = Command::new("sh");
            let mut process =
                Process::start_gently(command.args(["-c", script])).expect("there is sh");
            // Its trap is set a moment later.
            std::thread::sleep(std::time::Duration::from_millis(300));
            process.end();
            let ended = process.0.wait().expect("it was waited for");
            assert_eq!(ended.code(), expected, "{script}");
        }
    }
}
