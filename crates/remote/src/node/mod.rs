//! A node: lends its executors to front ends.
//!
//! ```text
//!     listener --> threads (worker.rs): connections, works.rs, turns.rs, memory.rs
//!                      ^                who may, guard.rs: anybody, a key's, or loans' (lender.rs)
//!                      ^
//!                      | compiled
//!                  services.rs: what is kept of services, and the thread that compiles them
//! ```

mod connection;
mod guard;
mod lender;
mod memory;
mod messages;
mod options;
mod services;
mod turns;
mod worker;
mod works;

#[cfg(test)]
mod tests;

pub use options::{Access, ExecutorFactory, NodeOptions};

use guard::{Guard, Loans};
use options::Limits;
use rhythm_net::workers::{self, Entrance, WorkerOptions};
use rhythm_net::{
    DriverOptions, ListenError, ListenOptions, Listener, Role, StartError, WorkerError,
    WorkerThread, Workers,
};
use services::Services;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use works::{Command, EXECUTORS, NodeWorker};

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
    loans: Arc<Loans>,
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
        let services = Services::start(options.stage_max)?;
        let limits = Limits {
            in_flight: options.in_flight.max(1),
            held_max: options.held_max,
        };
        let loans: Arc<Loans> = Arc::default();
        let guard = Guard::new(options.access.clone(), Arc::clone(&loans));
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
                guard.clone(),
                Arc::clone(&services),
                Arc::clone(&factory),
                thread.inbox.clone(),
                thread.driver.waker(EXECUTORS)?,
            ))
        };
        let entrances = vec![Entrance::listeners(Role::default(), listeners)];
        Ok(Node {
            address,
            loans,
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
