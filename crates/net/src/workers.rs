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

mod affinity;
mod inbox;
mod thread;
mod watch;
mod worker;

pub use inbox::Inbox;
pub use watch::{Hanging, Watch};
pub use worker::{StartError, Worker, WorkerError, WorkerOptions, WorkerThread};

use crate::driver::datagram::DatagramSocket;
use crate::driver::listen_error::ListenError;
use crate::driver::listener::Listener;
use crate::port::Role;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use thread::{Door, Seat};

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

    /// Clients' connections, from one listener that so many threads have in common.
    ///
    /// # Errors
    ///
    /// When there are too many open files.
    pub fn of_all(role: Role, listener: Listener, threads: usize) -> io::Result<Entrance> {
        let others = (1..threads).map(|_| listener.try_clone());
        let mut listeners = others.collect::<io::Result<Vec<_>>>()?;
        listeners.push(listener);
        Ok(Entrance::listeners(role, listeners))
    }

    /// Has its listeners listen that do not yet.
    ///
    /// # Errors
    ///
    /// As [`Listener::listen`].
    pub fn listen(&self) -> Result<(), ListenError> {
        match &self.sockets {
            Sockets::Listeners(listeners) => listeners.iter().try_for_each(Listener::listen),
            Sockets::Datagrams(_) => Ok(()),
        }
    }

    /// Datagrams, from [`DatagramSocket::bind_group`] or [`DatagramSocket::bind`].
    pub fn datagrams(role: Role, sockets: Vec<DatagramSocket>) -> Entrance {
        let sockets = Sockets::Datagrams(sockets);
        Entrance { role, sockets }
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
/// all its handlers. `make` makes a thread's handler, on that thread, at first and after each
/// panic.
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
    F: Fn(WorkerThread<'_, W::Command>) -> Result<W, E> + Send + Sync + 'static,
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
