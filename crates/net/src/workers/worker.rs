//! What a worker is, what it is made for and with, and how it can fail.

use super::inbox::Inbox;
use crate::driver::epoll::{Driver, DriverOptions};
use crate::port::{Handler, Port, Time};
use std::io;

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

/// The thread that a handler is made for.
pub struct WorkerThread<'a, C> {
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
