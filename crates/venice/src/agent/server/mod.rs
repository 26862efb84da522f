//! An agent with its sockets, on a thread of its own; the admin listener, if asked for, has
//! another, and asks this one.

mod panels;
mod status;
mod worker;

use super::borrowing::CLIENTS_MAX;
use super::{Agent, Lender, PlainLoans, Settings};
use crate::ask::{self, Asked};
use crate::identity::Identity;
use crate::name::NodeName;
use crate::random;
use crate::secret::Secret;
use rhythm_net::workers::{self, Entrance, WorkerError, WorkerOptions, WorkerThread, Workers};
use rhythm_net::{
    DatagramSocket, DriverOptions, Inbox, ListenError, ListenOptions, Listener, Peer, StartError,
    clock,
};
use rhythm_observe::admin::{self, Admin, Names, Observed, Told};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use worker::{OF_BORROWERS, Order, PROBES, Worker};

/// For how long what is sent to the monitor may be without acknowledgment.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(2);
/// Borrowers beyond those that are served, while they are turned away.
const TURNED_AWAY: usize = 64;

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the monitors are, of which one leads; at least one.
    pub monitors: Vec<SocketAddr>,
    /// What they must show, and this agent shows.
    pub trust: Trust,
    /// How it is; with port 0 in `probe`, a free one is taken. How many monitors there are is
    /// seen from their list.
    pub settings: Settings,
    /// Where borrowers of this machine come to, and who may.
    pub socket: PathBuf,
    /// The permissions of that socket, such as `0o600`.
    pub socket_mode: u32,
    /// Where health, tables and figures are told, if anywhere.
    pub admin: Option<SocketAddr>,
    /// More names by which that may be asked.
    pub admin_hosts: Vec<String>,
}

/// What an agent and its monitor show each other.
#[derive(Clone, Debug)]
pub enum Trust {
    /// That they have this secret; nothing is encrypted.
    Secret(Secret),
    /// Certificates, in TLS: this one, which is in this folder. Loans may be plain all the same.
    Identity(Arc<Identity>, PathBuf, PlainLoans),
}

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system.
    #[error("the agent cannot start: {0}")]
    Start(#[from] StartError<Infallible>),
}

/// An agent that runs.
pub struct Server {
    workers: Workers<Order>,
    admin: Option<Admin>,
    probe: SocketAddr,
}

/// Ends an agent from another thread.
#[derive(Clone)]
pub struct Handle(Inbox<Order>);

impl Handle {
    /// Ends it when what it lends has come back, or was taken back.
    pub fn leave(&self) {
        self.0.send(Order::Leave);
    }

    /// Ends it at once, as a crash would: what it lends is gone.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Server {
    /// Starts an agent, with what lends for it: borrowers can connect when it returns.
    ///
    /// # Errors
    /// Its addresses cannot be used.
    pub fn start<L: Lender + 'static>(options: Options, lender: L) -> Result<Server, AgentError> {
        let Options { mut settings, .. } = options;
        let listen = ListenOptions::default();
        let borrowers = Listener::bind_unix(&options.socket, options.socket_mode, &listen)?;
        let probes = DatagramSocket::bind(settings.probe)?;
        settings.probe = probes.local_address();
        settings.monitors = options.monitors.len();
        let admin = options
            .admin
            .map(|at| Listener::bind(at, &listen))
            .transpose()?;
        let (name, probe, within) = (
            settings.name.clone(),
            settings.probe,
            settings.reclaim_within,
        );
        let numbers = Box::new(random::numbers);
        let now = clock::monotonic();
        let monitors: Arc<[SocketAddr]> = options.monitors.into();
        let peer = |at: &SocketAddr| Peer::tcp("the monitor", *at);
        let peers = monitors.iter().map(peer).collect();
        let worker = match options.trust {
            Trust::Secret(secret) => {
                let agent = Agent::new(settings, secret, lender, numbers, now);
                Worker::new(agent, peers, within)
            }
            Trust::Identity(identity, folder, plain) => {
                let nobodys = Secret::of(&random::numbers());
                let agent = Agent::new(settings, nobodys, lender, numbers, now);
                let folder = folder.to_string_lossy().into_owned();
                Worker::new(agent.certified(folder, plain), peers, within).shows(identity)
            }
        };
        let worker = Mutex::new(Some(worker));
        let make = move |_: WorkerThread<'_, Order>| {
            let worker = worker.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok::<_, Infallible>(worker.expect("one thread, which is made once"))
        };
        let worker_options = WorkerOptions {
            name: "agent",
            // What is lent is lost with the agent: the process ends, and is started again.
            restarts_max: 0,
            driver: DriverOptions {
                connections_max: CLIENTS_MAX + TURNED_AWAY,
                crowded_cure: "they are borrowers of this machine; see who keeps them open",
                outgoing_max: 2,
                unacknowledged_max: Some(UNACKNOWLEDGED_MAX),
                ..DriverOptions::default()
            },
            ..WorkerOptions::default()
        };
        let entrances = vec![
            Entrance::listeners(OF_BORROWERS, vec![borrowers]),
            Entrance::datagrams(PROBES, vec![probes]),
        ];
        let workers = workers::start(&worker_options, entrances, make)?;
        let names = Names {
            names: options.admin_hosts,
            setting: "--admin-hosts",
        };
        let observable = Observable {
            inbox: workers.inboxes()[0].clone(),
            name,
            monitors,
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
            probe,
        })
    }

    /// Where link tests of others are answered.
    pub fn probe_address(&self) -> SocketAddr {
        self.probe
    }

    /// Where health, tables and figures are told, if anywhere.
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
    pub fn join(self) -> Result<(), WorkerError> {
        let ended = self.workers.join();
        if let Some(admin) = self.admin {
            admin.stop();
        }
        ended
    }
}

/// An agent, as the admin listener sees it.
struct Observable {
    inbox: Inbox<Order>,
    name: NodeName,
    monitors: Arc<[SocketAddr]>,
}

impl Observed for Observable {
    const PATHS: &str = "/ (the dashboard), /healthz, /readyz, /status or /metrics";

    fn tell(&self, path: &[u8]) -> Option<Told> {
        const SILENT: &str = "the agent does not answer";
        let Some(asked) = Asked::of(path) else {
            return ask::page(path, panels::SERVER, Err(SILENT));
        };
        let ailment = admin::ailment(std::slice::from_ref(&self.inbox));
        let told = match ailment {
            Some(_) => None,
            None => ask::ask(|to| self.inbox.send(Order::Tell(to))),
        };
        let why = ailment.unwrap_or(SILENT);
        Some(match (asked, told) {
            (Asked::Dashboard, told) => {
                let monitor = told
                    .as_ref()
                    .and_then(|told| self.monitors.get(told.monitor));
                let board = told
                    .as_ref()
                    .map(|told| panels::of(self.name.as_str(), monitor, told));
                return ask::page(path, panels::SERVER, board.ok_or(why));
            }
            (_, None) => Told::health(Some(why)),
            (Asked::Health, Some(told)) => Told::health(told.trouble.as_deref()),
            (Asked::Ready, Some(told)) => {
                let why = told.trouble.as_deref().unwrap_or("no monitor is reached");
                Told::health((!told.is_registered).then_some(why))
            }
            (Asked::Status, Some(told)) => {
                let monitor = self.monitors.get(told.monitor);
                Told::json(status::json(self.name.as_str(), monitor, &told))
            }
            (Asked::Metrics, Some(told)) => {
                let encode = move |to: &mut rhythm_observe::Writer<'_>| status::encode(&told, to);
                Told::figures(rhythm_observe::encode("rhythm_venice_agent", encode))
            }
        })
    }
}
