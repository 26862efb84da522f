//! A node of a keyspace with its sockets and its folder, on a thread of its own.
//!
//! ```text
//!   clients -- lines --> Worker: Clients --- requests --> Node --- journal --> Folder
//!                          ^                               |
//!   other nodes -- frames -+--- Lines <------ frames ------+
//! ```
//!
//! What came in one turn of the loop goes to the node together: the writes of all clients are one
//! batch, and one write to the disk. The thread waits for the disk itself, since nothing here can
//! be answered before it is done; the servers of items are on other threads, if in this process at
//! all. The admin listener, if asked for, has a thread of its own, too.

mod clients;
mod figures;
mod member;
mod observed;
mod otherwise;
mod panels;
mod watches;
mod worker;

use super::journal::{Folder, FolderError};
use super::node::{EndError, Node, OpenError, Options};
use super::wire;
use crate::checksum::checksum;
use crate::lines;
use crate::ring::Terms;
use crate::shared::KEEPALIVE;
use figures::Figures;
use observed::Observable;
use otherwise::Otherwise;
use rhythm_net::workers::{self, Entrance, WorkerError, WorkerOptions, WorkerThread, Workers};
use rhythm_net::{DriverOptions, ListenError, ListenOptions, Listener, StartError, clock};
use rhythm_observe::admin::{Admin, Names};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use worker::{OF_CLIENTS, OF_NODES, Order, Worker};

pub use clients::CLIENTS_MAX;
pub use member::Member;
pub use otherwise::NODES_MAX;

/// Connections beyond these that are being closed at a time.
const TURNED_AWAY: usize = 256;
/// Bytes of the journal, beside what it began with, from which on it is written anew.
const JOURNAL_BYTES: u64 = 16 << 20;

/// How a node is started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// All nodes, in an order that never changes.
    pub members: Vec<Member>,
    /// Which of them this is.
    pub me: usize,
    /// Its folder.
    pub folder: PathBuf,
    /// It has none yet.
    pub begin: bool,
    /// `--admin`: where health and figures are told, if anywhere.
    pub admin: Option<SocketAddr>,
    /// `--admin-hosts`: more names by which that may be asked.
    pub admin_hosts: Vec<String>,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// What is in it.
    #[error("{folder}: {error}")]
    Journal {
        /// Where.
        folder: PathBuf,
        /// What is wrong.
        error: OpenError,
    },
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system.
    #[error("the server cannot start: {0}")]
    Start(#[from] StartError<Infallible>),
}

/// Why a node has ended.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The node.
    #[error(transparent)]
    Node(EndError),
    /// The thread.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

impl ServerError {
    /// The journal lacks what the node confirmed: to start it again mends nothing.
    #[must_use]
    pub fn has_forgotten(&self) -> bool {
        match self {
            ServerError::Folder(error) => matches!(error, FolderError::Emptied(_)),
            ServerError::Journal { error, .. } => {
                matches!(error, OpenError::Damaged(_) | OpenError::Forgotten)
            }
            _ => false,
        }
    }
}

impl Failed {
    /// As of a [`ServerError`].
    #[must_use]
    pub fn has_forgotten(&self) -> bool {
        matches!(self, Failed::Node(EndError::Forgotten))
    }
}

/// A node that runs.
pub struct Server {
    workers: Workers<Order>,
    admin: Option<Admin>,
    failure: Arc<Mutex<Option<EndError>>>,
}

/// Ends a node from another thread.
#[derive(Clone)]
pub struct Handle(rhythm_net::Inbox<Order>);

impl Handle {
    /// Ends it: another node leads from now on, and clients get answers to what was taken.
    pub fn leave(&self) {
        self.0.send(Order::Leave);
    }

    /// Ends it at once, as a crash would: that costs nothing that was confirmed.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Settings {
    /// A number that tells this keyspace from others: nodes that were told of other members, or
    /// whose messages have another form, do not understand each other.
    fn digest(&self) -> u64 {
        let lines = self.members.iter();
        let lines = lines.map(|member| format!("{} {}\n", member.name, member.place));
        checksum(
            [1, u64::from(wire::FORM - 1)],
            lines.collect::<String>().as_bytes(),
        )
    }

    /// What makes that number.
    fn terms(&self) -> Terms {
        let nodes = self.members.iter().enumerate().map(|(index, member)| {
            let value = format!("{} {}", member.name, member.place);
            (format!("node {} of the file", index + 1), value)
        });
        let form = ("the form of messages".to_owned(), wire::FORM.to_string());
        Terms::new(&self.members[self.me].name, nodes.chain([form]))
    }

    /// A number that tells this node's journal from those of others. Nodes may move, so it has no
    /// addresses in it.
    fn whose(&self) -> u64 {
        let names = self
            .members
            .iter()
            .map(|member| format!("{}\n", member.name));
        checksum(
            [2 + self.me as u64, 0],
            names.collect::<String>().as_bytes(),
        )
    }
}

impl Server {
    /// Starts a node: clients can connect when it returns.
    ///
    /// # Errors
    /// Where its folder or its addresses cannot be used.
    pub fn start(settings: Settings) -> Result<Server, ServerError> {
        let listen = ListenOptions {
            keepalive: Some(KEEPALIVE),
            ..ListenOptions::default()
        };
        let me = &settings.members[settings.me];
        let clients = Listener::bind(me.client, &listen)?;
        let nodes = Listener::bind(me.backbone, &listen)?;
        let admin = settings.admin.map(|at| Listener::bind(at, &listen));
        let admin = admin.transpose()?;
        let (folder, journal) = Folder::open(&settings.folder, settings.begin)?;
        let options = Options {
            id: settings.me as u64 + 1,
            nodes: settings.members.len() as u64,
            digest: settings.digest(),
            whose: settings.whose(),
            // Another in each process.
            seed: RandomState::new().hash_one(settings.me),
            started: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            journal_bytes: JOURNAL_BYTES,
        };
        let syncs = folder.sync_times();
        let node = Node::open(options, folder, &journal, clock::monotonic());
        let node = node.map_err(|error| ServerError::Journal {
            folder: settings.folder.clone(),
            error,
        })?;
        let failure = Arc::new(Mutex::new(None));
        let figures = Arc::new(Figures::of(&settings.members, settings.me));
        let (of_worker, failed) = (Arc::clone(&figures), Arc::clone(&failure));
        let otherwise = Otherwise::new(settings.terms());
        let (members, me) = (&settings.members, settings.me);
        let worker = Worker::new(node, members, me, otherwise, of_worker, failed);
        let worker = Mutex::new(Some(worker));
        let count = settings.members.len();
        let worker_options = WorkerOptions {
            name: "keyspace",
            // What a node knows is in its journal: the process ends, and is started again.
            restarts_max: 0,
            driver: DriverOptions {
                // Those that are turned away among them, as long as they are being closed.
                connections_max: CLIENTS_MAX + 4 * count + TURNED_AWAY,
                crowded_cure: "have clients share connections",
                outgoing_max: 2 * count,
                unacknowledged_max: Some(lines::UNACKNOWLEDGED_MAX),
                ..DriverOptions::default()
            },
            ..WorkerOptions::default()
        };
        let entrances = vec![
            Entrance::listeners(OF_CLIENTS, vec![clients]),
            Entrance::listeners(OF_NODES, vec![nodes]),
        ];
        let make = move |_: WorkerThread<'_, Order>| {
            let worker = worker.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok::<_, Infallible>(worker.expect("one thread, which is made once"))
        };
        let workers = workers::start(&worker_options, entrances, make)?;
        let names = Names {
            names: settings.admin_hosts,
            setting: "--admin-hosts",
        };
        let observable = Observable {
            figures,
            syncs,
            worker: workers.inboxes()[0].clone(),
        };
        let admin = admin.map(|listener| Admin::start(listener, names, observable));
        let admin = match admin.transpose() {
            Ok(admin) => admin,
            Err(error) => {
                workers.stop();
                // That the listener did not start is what matters.
                let _ = workers.join();
                return Err(error.into());
            }
        };
        Ok(Server {
            workers,
            admin,
            failure,
        })
    }

    /// Where health and figures are told, if anywhere.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }

    /// What ends it from another thread.
    pub fn handle(&self) -> Handle {
        Handle(self.workers.inboxes()[0].clone())
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It could not go on.
    pub fn join(self) -> Result<(), Failed> {
        let ended = self.workers.join();
        if let Some(admin) = self.admin {
            admin.stop();
        }
        ended?;
        let failure = self.failure.lock();
        let failure = failure.unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), |error| Err(Failed::Node(error)))
    }
}
