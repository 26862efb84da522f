//! Processes that end, and temporary folders that go, with what made them: when they are dropped,
//! where a signal ends this program, which drops nothing ([`leave`]), and where it is killed: the
//! system ends its processes then, and the next program of its kind removes its folders.

mod parting;

use super::error::ReproduceError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Folders that may be left of programs that were killed and had the same number.
const LEFT_MAX: u32 = 1000;
/// What the names of folders begin with; the number of the process follows.
const PREFIX: &str = "rhythm-reproduce-";
/// The last lines of what a program said.
const TAIL: usize = 3;
/// How often it is looked whether one that is waited for has ended.
const LOOK: Duration = Duration::from_millis(5);

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

/// A port of this machine that nobody listens at now. Another may take it before a process does
/// that is told of it.
pub(crate) fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
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
        parting::end_with_this_thread(command, signal);
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

/// Runs one to its end, for which it has this time, and gives what it said; it ends where this
/// program does ([`leave`]), or is killed. Its input is the caller's to say.
///
/// # Errors
/// It does not start, or has not ended in time.
pub fn output(command: &mut Command, patience: Duration) -> io::Result<Output> {
    // Files, so that neither of the two fills while the other is read.
    let folder = Folder::new().map_err(io::Error::other)?;
    let [said, errors] = ["output", "errors"].map(|name| folder.path().join(name));
    command.stdout(File::create(&said)?);
    command.stderr(File::create(&errors)?);
    let mut process = Process::start(command)?;
    let until = Instant::now() + patience;
    let status = loop {
        match process.0.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > until => {
                let late = format!("it has not ended for {} s", patience.as_secs());
                return Err(io::Error::new(ErrorKind::TimedOut, late));
            }
            None => thread::sleep(LOOK),
        }
    };
    Ok(Output {
        status,
        stdout: fs::read(&said)?,
        stderr: fs::read(&errors)?,
    })
}

/// The end of what a program said, in a line.
pub(crate) fn tail(said: &str) -> String {
    let lines = said.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL)..].join("; ")
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        now().processes.remove(&self.0.id());
    }
}

/// A temporary folder, for this user alone, that goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Locked, for as long as this process is: what shows others that it is not left.
    _lock: Option<File>,
}

impl Folder {
    pub(crate) fn new() -> Result<Folder, ReproduceError> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| sweep(&std::env::temp_dir()));
        let mut now = now();
        let mut number = 0;
        loop {
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    now.folders.insert(path.clone());
                    let lock = File::open(&path).ok();
                    let _lock = lock.filter(|lock| lock.try_lock().is_ok());
                    return Ok(Folder { path, _lock });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < LEFT_MAX => {
                    number += 1;
                }
                Err(error) => return Err(ReproduceError::file(&path)(error)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        now().folders.remove(&self.path);
    }
}

/// Removes what programs have left that were killed: the folders whose process is gone. One of
/// another PID namespace is not seen, but it has its lock.
fn sweep(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let process = number.and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
        let is_gone = |process: u32| !Path::new(&format!("/proc/{process}")).exists();
        // Anybody may have made something of that name, such as a FIFO that nobody opens.
        let is_folder = || entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !process.is_some_and(is_gone) || !is_folder() {
            continue;
        }
        // Those of other users cannot be opened, and stay.
        if File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
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
    fn folders_of_who_is_gone_are_removed_and_no_others() {
        let folder = Folder::new().expect("a folder");
        // No process has so large a number.
        let make = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir(&path).expect("it is ours");
            path
        };
        let left = make("rhythm-reproduce-4294967295-0");
        let locked = make("rhythm-reproduce-4294967295-1");
        let lock = File::open(&locked).expect("it is there");
        lock.try_lock().expect("nobody else has it");
        let own = make(&format!("rhythm-reproduce-{}-0", std::process::id()));
        let other = make("rhythm-reproduce-x");
        sweep(folder.path());
        assert!(!left.exists() && locked.exists() && own.exists() && other.exists());
    }

    #[test]
    fn a_process_ends_with_the_thread_that_started_it() {
        let mut process = thread::spawn(|| {
            let mut sleep = Command::new("sleep");
            Process::start(sleep.arg("60")).expect("there is sleep")
        })
        .join()
        .expect("it has started one");
        let until = Instant::now() + Duration::from_secs(10);
        while !process.has_ended() && Instant::now() < until {
            thread::sleep(LOOK);
        }
        assert!(process.has_ended());
    }

    #[test]
    fn what_one_says_is_had_and_who_takes_too_long_is_ended() {
        let mut shell = Command::new("sh");
        let both = output(
            shell.args(["-c", "echo a; echo b >&2; exit 3"]),
            Duration::from_secs(60),
        );
        let both = both.expect("there is sh");
        assert_eq!(
            (both.status.code(), &both.stdout[..], &both.stderr[..]),
            (Some(3), &b"a\n"[..], &b"b\n"[..])
        );
        let late = output(Command::new("sleep").arg("60"), Duration::from_millis(50));
        assert_eq!(late.expect_err("it sleeps").kind(), ErrorKind::TimedOut);
        assert_eq!(tail("a\n\n b\nc\nd\n"), "b; c; d");
    }

    #[test]
    fn who_is_to_end_gently_does_and_whoever_does_not_is_killed() {
        for (script, expected) in [
            ("trap 'exit 7' TERM; while :; do sleep 0.01; done", Some(7)),
            ("trap '' TERM; while :; do sleep 0.01; done", None),
        ] {
            let mut command = Command::new("sh");
            let mut process =
                Process::start_shell(command.args(["-c", script])).expect("there is sh");
            // Its trap is set a moment later.
            std::thread::sleep(std::time::Duration::from_millis(300));
            process.end();
            let ended = process.0.wait().expect("it was waited for");
            assert_eq!(ended.code(), expected, "{script}");
        }
    }
}
