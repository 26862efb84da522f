//! A node: lends its executors to front ends.
//!
//! ```text
//!     listener --> threads (worker.rs): connections, turns, executors
//!                      ^
//!                      | compiled
//!                  services.rs: what is kept of services, and the thread that compiles them
//! ```

mod connection;
mod services;
mod worker;

use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_net::workers::{self, Entrance, WorkerOptions};
use rhythm_net::{
    DriverOptions, ListenError, ListenOptions, Listener, Role, StartError, Waker, WorkerError,
    WorkerThread, Workers,
};
use rhythm_venice::secret::Secret;
use services::Services;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use worker::{Command, EXECUTORS, NodeWorker};

/// Makes an executor, on the thread that it is for, whose lanes may ask for so much. It wakes the
/// thread when it has finished something.
///
/// An error says in words why there is none.
pub type ExecutorFactory =
    Arc<dyn Fn(LaneLimits, Waker) -> Result<Box<dyn Executor>, String> + Send + Sync>;

/// How a node is run.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Where front ends connect.
    pub listen: SocketAddr,
    /// Threads, each with executors of its own.
    pub threads: usize,
    /// What front ends are to have, too; none: anybody may use it.
    pub key: Option<Secret>,
    /// Cohorts that a connection may have under way.
    pub in_flight: usize,
    /// Connections of each thread at most.
    pub connections_max: usize,
    /// Bytes that each thread keeps of cohorts that wait, and of answers that are not taken yet.
    pub held_max: usize,
}

/// What of it a thread holds to.
#[derive(Clone, Copy, Debug)]
struct Limits {
    in_flight: usize,
    held_max: usize,
}

/// Why a node does not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// It cannot listen.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// The system has no resources for it.
    #[error("the system lacks resources: {0}")]
    System(#[from] io::Error),
    /// Its threads do not start.
    #[error("{0}")]
    Start(#[from] StartError<io::Error>),
    /// One has ended.
    #[error("{0}")]
    Worker(#[from] WorkerError),
}

/// A node that runs.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    workers: Workers<Command>,
}

impl Node {
    /// Starts one.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn start(options: &NodeOptions, factory: ExecutorFactory) -> Result<Node, NodeError> {
        let threads = options.threads.max(1);
        let listeners = Listener::bind_group(options.listen, threads, &ListenOptions::default())?;
        let address = listeners[0].local_address();
        let services = Services::start()?;
        let limits = Limits {
            in_flight: options.in_flight.max(1),
            held_max: options.held_max,
        };
        let key = options.key.clone();
        let worker_options = WorkerOptions {
            name: "device",
            threads,
            driver: DriverOptions {
                connections_max: options.connections_max,
                ..DriverOptions::default()
            },
            ..WorkerOptions::default()
        };
        let make = move |thread: WorkerThread<'_, Command>| {
            Ok::<_, io::Error>(NodeWorker::new(
                limits,
                key.clone(),
                Arc::clone(&services),
                Arc::clone(&factory),
                thread.inbox.clone(),
                thread.driver.waker(EXECUTORS)?,
            ))
        };
        let entrances = vec![Entrance::listeners(Role::default(), listeners)];
        Ok(Node {
            address,
            workers: workers::start(&worker_options, entrances, make)?,
        })
    }

    /// Where front ends connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What ends it at once, from any thread: cohorts that are under way are run elsewhere.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let inboxes = self.workers.inboxes().to_vec();
        move || inboxes.iter().for_each(rhythm_net::Inbox::stop)
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// Why it could not go on.
    pub fn join(self) -> Result<(), NodeError> {
        Ok(self.workers.join()?)
    }
}
