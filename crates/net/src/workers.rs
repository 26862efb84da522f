//! Worker threads: each with a driver and a handler of its own, which share nothing.
//!
//! ```text
//!   starter                          worker thread 0 .. n-1
//!   -------                          ----------------------
//!   start ------ listeners --------> pin, make the driver
//!                                    make the handler  <-----------------------+
//!     |   <----- ready, or why not - (all or none)                             |
//!     +--------- go ---------------> driver.run(handler): waits in epoll       |
//!                                      |        ^                              |
//!   Inbox.send(command) --- waker ---> obey     |        a panic: connections  |
//!   Inbox.stop() ---------- waker ---> leave    +--+     are reset, listeners -+
//!                                      |           |     stay, a pause
//!   join <---------------------------- finished    +-- connections, timers, datagrams
//! ```
//!
//! A handler is made on the thread that drives it, so neither it nor what it owns (an executor, a
//! device's context) need be able to move between threads. A worker that panics loses its own
//! connections and nothing else: its state may be damaged anywhere, so all of it is made anew, and
//! clients wait in the listeners' queues meanwhile.

mod thread;

use crate::affinity;
use crate::datagram::DatagramSocket;
use crate::epoll::{Driver, DriverOptions};
use crate::listener::Listener;
use crate::port::{Handler, Port, Role, Time};
use crate::waker::Waker;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use thread::{Door, Seat};

/// A handler that worker threads run: beside what the driver tells it, it obeys other threads.
pub trait Worker: Handler {
    /// What other threads may ask of it; [`std::convert::Infallible`] if nothing but to stop.
    type Command: Send + 'static;

    /// A command came, in the order in which they were sent. One under which the handler panics is
    /// lost; those behind it are for the handler that follows. To be left out where no command can
    /// be.
    fn obey(&mut self, port: &mut dyn Port, command: Self::Command, now: Time) {
        let _ = (port, command, now);
    }
}

/// How to run workers.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The threads' names, with `-` and a number behind.
    pub name: &'static str,
    /// Threads; at least 1.
    pub threads: usize,
    /// Keep each thread on a core of its own, as far as there are enough.
    pub pin: bool,
    /// New starts in a thread's life after panics; with none left, the thread ends.
    pub restarts_max: u32,
    /// The bounds of each thread's driver.
    pub driver: DriverOptions,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions {
            name: "worker",
            threads: 1,
            pin: false,
            restarts_max: u32::MAX,
            driver: DriverOptions::default(),
        }
    }
}

/// What a handler is made for.
pub struct Place<'a, C> {
    /// Which thread, from 0.
    pub index: usize,
    /// Handlers that panicked on this thread before.
    pub restarts: u32,
    /// The thread's driver: for wakers, first connections and sockets of the handler's own. Those
    /// of the entrances stay through a new start, these do not.
    pub driver: &'a mut Driver,
    /// The thread's inbox, for those whose results the handler waits for.
    pub inbox: &'a Inbox<C>,
}

/// Sockets of one role through which the world comes to the workers: one for each thread, or for
/// the first threads only.
#[derive(Debug)]
pub struct Entrance {
    role: Role,
    sockets: Sockets,
}

#[derive(Debug)]
enum Sockets {
    Listeners(Vec<Listener>),
    Datagrams(Vec<DatagramSocket>),
}

impl Entrance {
    /// Clients' connections, from [`Listener::bind_group`] or [`Listener::bind`].
    pub fn listeners(role: Role, listeners: Vec<Listener>) -> Entrance {
        let sockets = Sockets::Listeners(listeners);
        Entrance { role, sockets }
    }

    /// Datagrams, from [`DatagramSocket::bind_group`] or [`DatagramSocket::bind`].
    pub fn datagrams(role: Role, sockets: Vec<DatagramSocket>) -> Entrance {
        let sockets = Sockets::Datagrams(sockets);
        Entrance { role, sockets }
    }
}

/// Why workers do not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError<E> {
    /// The system has no resources for it.
    #[error("the system lacks resources: {0}")]
    System(#[from] io::Error),
    /// A handler could not be made.
    #[error("{0}")]
    Handler(E),
    /// A thread panicked before it was ready; the message was on stderr.
    #[error("a worker panicked at its start")]
    Panicked,
}

/// Why a worker ended without having finished.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Waiting for events failed, which it has no reason to.
    #[error("the event loop cannot go on: {0}")]
    Loop(#[from] io::Error),
    /// It panicked more often than it may start anew; the message was on stderr.
    #[error("a worker panicked")]
    Panicked,
    /// It panicked, and its next handler could not be made.
    #[error("a worker cannot start anew: {0}")]
    Handler(String),
}

/// Where other threads leave commands for a worker. Cheap to clone.
///
/// What is sent is kept until the worker takes it: senders are to be few, or to wait for answers.
pub struct Inbox<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    commands: Mutex<Vec<C>>,
    is_stopped: AtomicBool,
    waker: Waker,
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
    fn new() -> io::Result<Inbox<C>> {
        Ok(Inbox {
            shared: Arc::new(Shared {
                commands: Mutex::default(),
                is_stopped: AtomicBool::new(false),
                waker: Waker::new()?,
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

    fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Acquire)
    }

    /// Moves what was sent into `commands`, behind what is there.
    fn take(&self, commands: &mut impl Extend<C>) {
        let mut sent = self
            .shared
            .commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        commands.extend(sent.drain(..));
    }
}

/// Threads that run. Dropped without [`Workers::join`], they go on.
#[derive(Debug)]
pub struct Workers<C> {
    inboxes: Vec<Inbox<C>>,
    threads: Vec<JoinHandle<Result<(), WorkerError>>>,
}

impl<C> Workers<C> {
    /// The inbox of each thread.
    pub fn inboxes(&self) -> &[Inbox<C>] {
        &self.inboxes
    }

    /// [`Inbox::stop`] of each thread.
    pub fn stop(&self) {
        self.inboxes.iter().for_each(Inbox::stop);
    }

    /// Whether no thread runs any more.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until every thread has ended.
    ///
    /// # Errors
    ///
    /// Of the threads that ended without having finished, the first one's reason.
    pub fn join(self) -> Result<(), WorkerError> {
        let joined = self.threads.into_iter().map(|thread| {
            // What is outside of the handler panics by our mistake only; it counts the same.
            thread.join().unwrap_or(Err(WorkerError::Panicked))
        });
        joined.fold(Ok(()), Result::and)
    }
}

/// Starts workers: all of them are ready when it returns, or none is left.
///
/// Each thread has one socket of each of the `entrances`, as far as they go; it keeps them through
/// all its handlers. `make` makes a thread's handler, on that thread, at first and after each panic.
///
/// # Errors
///
/// When a thread, its driver or its handler cannot be made.
pub fn start<W, E, F>(
    options: &WorkerOptions,
    entrances: Vec<Entrance>,
    make: F,
) -> Result<Workers<W::Command>, StartError<E>>
where
    W: Worker,
    E: fmt::Display + Send + 'static,
    F: Fn(Place<'_, W::Command>) -> Result<W, E> + Send + Sync + 'static,
{
    let threads = options.threads.max(1);
    let mut doors: Vec<Vec<Door>> = (0..threads).map(|_| Vec::new()).collect();
    for Entrance { role, sockets } in entrances {
        let sockets: Vec<Door> = match sockets {
            Sockets::Listeners(all) => all
                .into_iter()
                .map(|one| Door::Listener(role, one))
                .collect(),
            Sockets::Datagrams(all) => all
                .into_iter()
                .map(|one| Door::Datagrams(role, one))
                .collect(),
        };
        assert!(
            sockets.len() <= threads,
            "no thread takes what comes as {role:?}"
        );
        doors
            .iter_mut()
            .zip(sockets)
            .for_each(|(doors, door)| doors.push(door));
    }
    let cores = if options.pin {
        affinity::allowed_cores()?
    } else {
        Vec::new()
    };
    let make = Arc::new(make);
    let mut workers = Workers {
        inboxes: Vec::new(),
        threads: Vec::new(),
    };
    let mut goes: Vec<Sender<()>> = Vec::new();
    let (ready, readiness) = channel();
    for (index, doors) in doors.into_iter().enumerate() {
        let inbox = Inbox::new()?;
        let (go, gone) = channel();
        let seat = Seat {
            index,
            core: (!cores.is_empty()).then(|| cores[index % cores.len()]),
            options: options.clone(),
            doors,
            inbox: inbox.clone(),
        };
        let (make, ready) = (Arc::clone(&make), ready.clone());
        let thread = std::thread::Builder::new()
            .name(format!("{}-{index}", options.name))
            .spawn(move || thread::run(seat, &*make, ready, gone))?;
        workers.inboxes.push(inbox);
        workers.threads.push(thread);
        goes.push(go);
    }
    drop(ready);
    let mut missing = threads;
    let failed = readiness.iter().find_map(|ready| {
        missing -= 1;
        ready.err()
    });
    // A thread that panicked has hung up without a word.
    let failed = failed.or((missing > 0).then_some(StartError::Panicked));
    if let Some(error) = failed {
        // Who waits for `go` sees that it will not come.
        drop(goes);
        drop(workers.join());
        return Err(error);
    }
    // A thread that is gone by now says why when it is joined.
    for go in goes {
        let _ = go.send(());
    }
    Ok(workers)
}
