//! What other threads send a worker, and ask of its thread.

use super::affinity::{cores_of, keep_on};
use crate::driver::waker::Waker;
use crate::port::Time;
use crate::pulse::Pulse;
use rustix::thread::Pid;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Where other threads leave commands for a worker. Cheap to clone.
///
/// What is sent is kept until the worker takes it: senders are to be few, or to wait for answers.
pub struct Inbox<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    commands: Mutex<Vec<C>>,
    is_stopped: AtomicBool,
    has_ended: AtomicBool,
    /// In nanoseconds.
    ails_until: AtomicU64,
    waker: Waker,
    pulse: Pulse,
    thread: OnceLock<Thread>,
}

/// The worker's thread, and the core that it is kept on, if it is kept on one.
#[derive(Clone, Copy)]
struct Thread {
    id: Pid,
    core: Option<usize>,
}

impl<C> Clone for Inbox<C> {
    fn clone(&self) -> Inbox<C> {
        Inbox {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<C> fmt::Debug for Inbox<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl<C> Inbox<C> {
    pub(super) fn new() -> io::Result<Inbox<C>> {
        Ok(Inbox {
            shared: Arc::new(Shared {
                commands: Mutex::default(),
                is_stopped: AtomicBool::new(false),
                has_ended: AtomicBool::new(false),
                ails_until: AtomicU64::new(0),
                waker: Waker::new()?,
                pulse: Pulse::default(),
                thread: OnceLock::new(),
            }),
        })
    }

    /// Leaves a command and wakes the worker. For one that has ended, nothing happens.
    pub fn send(&self, command: C) {
        let commands = &self.shared.commands;
        commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(command);
        self.shared.waker.wake();
    }

    /// Has the worker leave its loop at once, whatever is under way.
    pub fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        self.shared.waker.wake();
    }

    /// Moves the worker's thread to these cores at once, whatever it does just now: connections,
    /// timers and memory stay its own. A thread that is kept on a core goes to that one alone, if
    /// it is among these. Says whether there is a thread to move.
    ///
    /// # Errors
    ///
    /// When this process may use none of these cores.
    pub fn run_on(&self, cores: &[usize]) -> io::Result<bool> {
        let moved = |thread: Thread| match thread.core {
            Some(core) if cores.contains(&core) => keep_on(Some(thread.id), &[core]),
            _ => keep_on(Some(thread.id), cores),
        };
        Ok(self.of_thread(moved)?.is_some())
    }

    /// The cores that the worker's thread may run on, in rising order; none if it has ended.
    ///
    /// # Errors
    ///
    /// What the system said, which it has no common reason to.
    pub fn cores(&self) -> io::Result<Option<Vec<usize>>> {
        self.of_thread(|thread| cores_of(Some(thread.id)))
    }

    /// What comes of it for the thread that runs, if one does.
    fn of_thread<T>(&self, of: impl FnOnce(Thread) -> io::Result<T>) -> io::Result<Option<T>> {
        let thread = self.shared.thread.get().filter(|_| !self.has_ended());
        let Some(&thread) = thread else {
            return Ok(None);
        };
        match of(thread) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// This thread is the worker's, and is kept on this core.
    pub(super) fn sit(&self, core: Option<usize>) {
        let id = rustix::thread::gettid();
        // A worker has one thread, from its start on.
        let _ = self.shared.thread.set(Thread { id, core });
    }

    /// Whether the worker's thread has ended, or is about to: it takes no more commands.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::Acquire)
    }

    /// Whether the worker panics again and again, soon after each of its starts: starting anew does
    /// not help it.
    pub fn is_ailing(&self, now: Time) -> bool {
        now.as_nanos() < self.shared.ails_until.load(Ordering::Acquire)
    }

    /// When the worker began the turn of its loop that it is at; none while it waits for something
    /// to do, or has ended. One that panicked is at that turn until it has started anew.
    pub fn turn_began(&self) -> Option<Time> {
        self.shared.pulse.turn_began().filter(|_| !self.has_ended())
    }

    pub(super) fn pulse(&self) -> &Pulse {
        &self.shared.pulse
    }

    pub(super) fn ails_until(&self, until: Time) {
        (self.shared.ails_until).store(until.as_nanos(), Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.shared.has_ended.store(true, Ordering::Release);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Acquire)
    }

    /// Moves what was sent into `commands`, behind what is there.
    pub(super) fn take(&self, commands: &mut impl Extend<C>) {
        let mut sent = self
            .shared
            .commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        commands.extend(sent.drain(..));
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.shared.waker
    }
}
