//! `sched_setaffinity` of each thread of a process and of all that descend from it.
//!
//! A thread takes after the one that made it, so what comes into being after a switch is right by
//! itself. What came into being between the last look and the switch is not known to the switch:
//! [`Switcher::follow`] finds it, soon after a switch and from time to time.
//!
//! A process whose parent ended is still followed, as long as it was seen before.

use super::error::SwitchError;
use super::process::{Process, tree};
use super::restore::Restore;
use super::way::{Followed, Switcher, online};
use crate::cpus::CpuSet;
use rustix::thread::Pid;
use std::collections::BTreeSet;
use std::path::Path;

/// Most looks at who is there, until one finds nobody new.
const LOOKS_MAX: usize = 4;

/// A process, its descendants and all their threads.
#[derive(Debug)]
pub struct Affinity {
    /// Who is known to run: the processes that it was opened for, and descendants.
    known: BTreeSet<Process>,
    threads: Vec<u32>,
    full: CpuSet,
    /// What they were last given.
    given: CpuSet,
}

impl Affinity {
    /// Opens a process with its descendants.
    ///
    /// # Errors
    /// When it does not run, or threads have sets of their own, which would be lost.
    pub fn open(pid: u32) -> Result<Affinity, SwitchError> {
        let Some(process) = Process::of(pid) else {
            return Err(SwitchError::Unfit(format!("no process {pid} runs")));
        };
        let full = get(pid)?.ok_or_else(|| SwitchError::Unfit(format!("{pid} has ended")))?;
        let mut opened = Affinity::of(BTreeSet::from([process]), full.clone());
        opened.look()?;
        for &thread in &opened.threads {
            if get(thread)?.is_some_and(|own| own != full) {
                return Err(SwitchError::Unfit(format!(
                    "thread {thread} of process {pid}'s tree is kept on CPUs of its own, which \
                     would be lost: switch off such pinning (nginx: worker_cpu_affinity; rhythm: \
                     --pin); from Linux 6.2 on, a control group keeps them (--unit, --cgroup)"
                )));
            }
        }
        Ok(opened)
    }

    /// How many threads are known.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Processes that once had these CPUs, as far as they still run.
    pub(super) fn of(known: BTreeSet<Process>, full: CpuSet) -> Affinity {
        Affinity {
            known,
            threads: Vec::new(),
            given: full.clone(),
            full,
        }
    }

    /// Looks who is there; says whether other processes are than before.
    fn look(&mut self) -> Result<bool, SwitchError> {
        let proc = Path::new("/proc");
        let now = tree(&self.known).map_err(SwitchError::system("read", proc))?;
        self.threads = now.iter().flat_map(|process| process.threads()).collect();
        // Nobody is left of a server that ended; what it was is kept, to be told of.
        let is_other = !now.is_empty() && now != self.known;
        if is_other {
            self.known = now;
        }
        Ok(is_other)
    }

    /// Who is known to run, or was when the last one of them ended.
    pub(super) fn known(&self) -> &BTreeSet<Process> {
        &self.known
    }

    /// The process that it was opened for, or one of those that descend from it.
    pub(super) fn has(&self, process: Process) -> bool {
        self.known.contains(&process)
    }

    /// Gives all known threads these CPUs; says which had others. One that may not be touched
    /// keeps none of the others from theirs: the first such error is told at the end.
    fn give(&mut self, cpus: &CpuSet, look_first: bool) -> Result<Vec<u32>, SwitchError> {
        let (mut changed, mut refused) = (Vec::new(), None);
        // The kernel names no CPU that is offline.
        let right = online(cpus);
        for &thread in &self.threads {
            // It ended, or it is right already.
            let is_right = look_first
                && matches!(get(thread), Ok(now) if now.as_ref().is_none_or(|now| *now == right));
            if is_right {
                continue;
            }
            match put(thread, cpus) {
                Ok(true) => changed.push(thread),
                Ok(false) => {}
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        refused.map_or(Ok(changed), Err)
    }
}

impl Switcher for Affinity {
    fn name(&self) -> String {
        format!("sched_setaffinity of {} threads", self.threads.len())
    }

    fn full(&self) -> &CpuSet {
        &self.full
    }

    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        self.given = cpus.clone();
        self.give(cpus, false)?;
        if !self.known.iter().any(|process| process.runs()) {
            return Err(SwitchError::Unfit(
                "the server's processes have ended".to_owned(),
            ));
        }
        Ok(())
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        let mut all = CpuSet::default();
        for &thread in &self.threads {
            all.extend(get(thread)?.unwrap_or_default().iter());
        }
        if all.is_empty() {
            return Err(SwitchError::Unfit(
                "the server's processes have ended".to_owned(),
            ));
        }
        Ok(all)
    }

    fn follow(&mut self) -> Result<Followed, SwitchError> {
        // Who was given these CPUs before has others only if somebody else did that.
        let before: BTreeSet<u32> = self.threads.iter().copied().collect();
        let mut followed = Followed::default();
        for _ in 0..LOOKS_MAX {
            followed.is_other |= self.look()?;
            let given = self.given.clone();
            let changed = self.give(&given, true)?;
            followed.was_changed |= changed.iter().any(|thread| before.contains(thread));
            if changed.is_empty() {
                break;
            }
        }
        Ok(followed)
    }

    fn restores(&self) -> Vec<Restore> {
        vec![Restore::Tasks {
            processes: self.known.clone(),
            cpus: self.full.clone(),
        }]
    }
}

/// The CPUs of a thread; none if it has ended.
pub(super) fn get(thread: u32) -> Result<Option<CpuSet>, SwitchError> {
    let Some(id) = id(thread) else {
        return Ok(None);
    };
    match rustix::thread::sched_getaffinity(Some(id)) {
        Ok(set) => {
            let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
            Ok(Some(cpus.filter(|&cpu| set.is_set(cpu)).collect()))
        }
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(SwitchError::Thread {
            thread,
            source: error.into(),
        }),
    }
}

/// Gives a thread these CPUs; says whether it was still there.
fn put(thread: u32, cpus: &CpuSet) -> Result<bool, SwitchError> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter() {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(SwitchError::Unfit(format!(
                "CPU {cpu} is beyond those that sched_setaffinity has here: use a control group"
            )));
        }
        set.set(cpu);
    }
    let Some(id) = id(thread) else {
        return Ok(false);
    };
    match rustix::thread::sched_setaffinity(Some(id), &set) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(SwitchError::Thread {
            thread,
            source: error.into(),
        }),
    }
}

/// A thread's number, as the system calls take it; none for 0, which would mean this thread.
fn id(thread: u32) -> Option<Pid> {
    i32::try_from(thread).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switcher::put_back;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A shell that starts a child, and another whenever it reads a line.
    fn server() -> Child {
        let script = "sleep 60 & while read line; do sleep 60 & done; kill $(jobs -p)";
        (Command::new("bash").args(["-c", script]))
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell")
    }

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_tree_is_switched_with_who_came_since() {
        use std::io::Write;
        let mut shell = server();
        let mut opened = Affinity::open(shell.id()).expect("it runs");
        until("a child", || {
            opened.follow().expect("/proc");
            opened.threads.len() == 2
        });
        let full = opened.full().clone();
        let one: CpuSet = full.iter().take(1).collect();
        opened.set(&one).expect("this user's own processes");
        assert_eq!(opened.current().expect("a set"), one);
        // Somebody who does not take after the shell: here by being given all again.
        writeln!(shell.stdin.as_mut().expect("a pipe"), "more").expect("a line");
        until("another child", || {
            opened.follow().expect("/proc");
            opened.threads.len() == 3
        });
        let stray = *opened.threads.last().expect("the newest");
        assert_eq!(opened.follow().expect("/proc"), Followed::default());
        put(stray, &full).expect("its set");
        let followed = opened.follow().expect("/proc");
        assert!(
            followed.was_changed && !followed.is_other,
            "by somebody else"
        );
        assert_eq!(get(stray).expect("it runs"), Some(one.clone()));
        // What is restored by who knows only this: even those whose parent is gone.
        let restores = opened.restores();
        shell.kill().and_then(|()| shell.wait()).expect("it ends");
        for restore in &restores {
            put_back(restore).expect("it is put back");
        }
        assert_eq!(get(stray).expect("it runs"), Some(full.clone()));
        for process in opened.known.clone() {
            let pid = Pid::from_raw(process.pid as i32).expect("a number");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        until("all have ended", || {
            opened.known.iter().all(|process| !process.runs())
        });
    }

    #[test]
    fn a_cpu_that_is_offline_is_nobodys_doing() {
        let mut shell = server();
        let process = Process::of(shell.id()).expect("it runs");
        let mut full = get(shell.id()).expect("it runs").expect("it runs");
        // As of a server whose last CPU was unplugged; this machine has none of that number.
        full.insert(1000);
        let mut opened = Affinity::of(BTreeSet::from([process]), full.clone());
        until("a child", || {
            opened.follow().expect("/proc");
            opened.threads.len() == 2
        });
        let followed = opened.follow().expect("/proc");
        let current = opened.current().expect("it runs");
        drop(shell.stdin.take());
        shell.wait().expect("it ends");
        assert_eq!(followed, Followed::default());
        assert_eq!(current, opened.possible(&full));
    }

    #[test]
    fn threads_with_sets_of_their_own_are_left_alone() {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            eprintln!("not tried: one CPU");
            return;
        }
        let mut shell = server();
        let mut opened = Affinity::open(shell.id()).expect("it runs");
        until("a child", || {
            opened.follow().expect("/proc");
            opened.threads.len() == 2
        });
        let child = opened
            .threads
            .iter()
            .copied()
            .find(|&thread| thread != shell.id());
        let one: CpuSet = opened.full().iter().take(1).collect();
        put(child.expect("a child"), &one).expect("its set");
        let error = Affinity::open(shell.id()).expect_err("pinned").to_string();
        drop(shell.stdin.take());
        shell.wait().expect("it ends");
        assert!(error.contains("CPUs of its own"), "{error}");
        until("all have ended", || match opened.set(&one) {
            Ok(()) => false,
            Err(error) => error.to_string().contains("have ended"),
        });
        assert!(Affinity::open(shell.id()).is_err());
    }
}
