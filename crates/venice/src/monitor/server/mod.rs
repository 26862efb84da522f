//! A monitor with its sockets and its folder, on a thread of its own.
//!
//! The thread waits for the disk itself, since nobody may be told of what is not kept. The admin
//! listener, if asked for, has a thread of its own, and asks this one. Where the state is in etcd,
//! another one stands for election, and tells this one when it leads.

mod figures;
mod guard;
mod panels;
mod role;
mod state;
mod status;
mod strangers;
mod worker;

pub use state::{StatePlace, StatePlaceError};

use super::etcd::{Candidate, Election, Keeping, News, Place, Trusted};
use super::keeper::Keeper;
use super::policy::Policy;
use super::{Folder, FolderError, Settings};
use crate::ask::{self, Asked};
use crate::identity::{Authority, AuthorityError};
use crate::random;
use crate::secret::Secret;
use crate::wire::NODES_MAX;
use guard::Guard;
use rhythm_etcd::Etcd;
use rhythm_net::workers::{self, Entrance, WorkerError, WorkerOptions, WorkerThread, Workers};
use rhythm_net::{
    DriverOptions, Inbox, ListenError, ListenOptions, Listener, Role, StartError, clock,
};
use rhythm_observe::admin::{self, Admin, Names, Observed, Told};
use role::{Recipe, Role as Part, Waiting};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use worker::{Failure, Order, Worker};

/// Connections: of each node one, a new one before the last is seen to be gone, and of strangers,
/// who make way for others (`strangers.rs`).
const CONNECTIONS_MAX: usize = 2 * NODES_MAX + 64;

/// How a monitor is started.
pub struct Options {
    /// Where agents reach it.
    pub listen: SocketAddr,
    /// Where it keeps what it may not forget.
    pub state: StatePlace,
    /// What agents must show.
    pub trust: Trust,
    /// How it judges.
    pub settings: Settings,
    /// How it chooses donors.
    pub policy: Box<dyn Policy>,
    /// Where health, tables and figures are told, if anywhere.
    pub admin: Option<SocketAddr>,
    /// More names by which that may be asked.
    pub admin_hosts: Vec<String>,
}

/// What agents must show.
pub enum Trust {
    /// That they have this secret; nothing is encrypted.
    Secret(Secret),
    /// A certificate of this authority, in TLS; who has a token of it may have one.
    Authority(Box<Authority>),
}

/// Why a monitor does not start.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// Its folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system.
    #[error("the monitor cannot start: {0}")]
    Start(#[from] StartError<Infallible>),
    /// Likewise.
    #[error("the monitor cannot start: {0}")]
    Thread(io::Error),
}

/// Why a monitor has ended.
#[derive(Debug, thiserror::Error)]
pub enum MonitorFailed {
    /// It shares its state with one whose agents cannot come to it.
    #[error(
        "the monitor at {} leads with this --state, and agents show it {}, but this one {}: that \
         is no spare of it. Give both the same --authority (copy its key.pem and authority.pem), \
         or this one another prefix in --state",
        .0.agents, shown(.0.trusted.as_ref()), shown(Some(.1))
    )]
    Foreign(Box<Place>, Trusted),
    /// Nobody knows what is on the disk.
    #[error(
        "the journal cannot be written: {0}. Loans go on; start the monitor again when the disk is \
         well"
    )]
    Disk(io::Error),
    /// The thread.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// A monitor that runs.
pub struct Server {
    address: SocketAddr,
    workers: Workers<Order>,
    admin: Option<Admin>,
    candidate: Option<Candidate>,
    trusted: Trusted,
    failure: Arc<Mutex<Option<Failure>>>,
}

/// Ends a monitor from another thread.
#[derive(Clone)]
pub struct Handle(Inbox<Order>);

impl Handle {
    /// Ends it at once: that costs nothing, as loans go on.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Server {
    /// Starts a monitor: agents can connect when it returns.
    ///
    /// # Errors
    /// Its folder or its addresses cannot be used.
    pub fn start(options: Options) -> Result<Server, MonitorError> {
        let listen = ListenOptions::default();
        let listener = Listener::bind(options.listen, &listen)?;
        let address = listener.local_address();
        let admin = options
            .admin
            .map(|at| Listener::bind(at, &listen))
            .transpose()?;
        let trusted = match &options.trust {
            Trust::Secret(_) => Trusted::Secret,
            Trust::Authority(authority) => Trusted::Authority(authority.fingerprint()),
        };
        let (secret, guard) = match options.trust {
            Trust::Secret(secret) => (secret, None),
            // The secret is one that nobody has.
            Trust::Authority(authority) => (
                Secret::of(&random::numbers()),
                Some(Guard::new(*authority)?),
            ),
        };
        let mut settings = options.settings;
        if matches!(options.state, StatePlace::Etcd { .. }) {
            // Whose connection ends tries the spare first, and that may hang.
            settings.gone_after = settings.gone_after.max(settings.dead_after);
        }
        let recipe = Recipe {
            settings,
            secret,
            probe_key: guard.as_ref().map(Guard::probe_key),
            policy: options.policy.into(),
        };
        let mut election = None;
        let part = match options.state {
            StatePlace::Folder(path) => {
                let folder = Folder::open(&path)?;
                let state = folder.state().clone();
                recipe.leads(Box::new(folder), &state, clock::monotonic())
            }
            StatePlace::Etcd { etcd, seconds } => {
                let admin = admin.as_ref().map(Listener::local_address);
                let me = Place {
                    agents: address,
                    admin,
                    trusted: Some(trusted),
                };
                election = Some(Election::new(etcd, me, seconds));
                Part::waits()
            }
        };
        let failure = Arc::new(Mutex::new(None));
        let worker = Worker::new(recipe, part, Arc::clone(&failure)).guarded_by(guard);
        let worker = Mutex::new(Some(worker));
        let make = move |_: WorkerThread<'_, Order>| {
            let worker = worker.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok::<_, Infallible>(worker.expect("one thread, which is made once"))
        };
        let worker_options = WorkerOptions {
            name: "monitor",
            // What a monitor knows is in its journal: the process ends, and is started again.
            restarts_max: 0,
            driver: DriverOptions {
                connections_max: CONNECTIONS_MAX,
                crowded_cure: "see who connects that is no agent",
                ..DriverOptions::default()
            },
            ..WorkerOptions::default()
        };
        let entrances = vec![Entrance::listeners(Role::default(), vec![listener])];
        let workers = workers::start(&worker_options, entrances, make)?;
        let names = Names {
            names: options.admin_hosts,
            setting: "--admin-hosts",
        };
        let inbox = workers.inboxes()[0].clone();
        let observable = Observable(inbox.clone());
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
        let candidate = election.map(|election| stand(election, inbox)).transpose();
        match candidate {
            Ok(candidate) => Ok(Server {
                address,
                workers,
                admin,
                candidate,
                trusted,
                failure,
            }),
            Err(error) => {
                workers.stop();
                let _ = workers.join();
                Err(MonitorError::Thread(error))
            }
        }
    }

    /// Where agents reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
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
    pub fn join(self) -> Result<(), MonitorFailed> {
        let ended = self.workers.join();
        // It leads no more: another one need not wait for its lease.
        drop(self.candidate);
        if let Some(admin) = self.admin {
            admin.stop();
        }
        ended?;
        let failure = self.failure.lock();
        let failure = failure.unwrap_or_else(PoisonError::into_inner).take();
        match failure {
            None => Ok(()),
            Some(Failure::Disk(error)) => Err(MonitorFailed::Disk(error)),
            Some(Failure::Foreign(leader)) => {
                Err(MonitorFailed::Foreign(Box::new(leader), self.trusted))
            }
        }
    }
}

/// What agents show, in words.
fn shown(trusted: Option<&Trusted>) -> String {
    match trusted {
        Some(Trusted::Authority(authority)) => format!("certificates of authority {authority}"),
        Some(secret) => secret.to_string(),
        None => "nobody knows what".to_owned(),
    }
}

/// Stands for election, and tells the monitor's thread how that goes.
fn stand(election: Election<Etcd>, inbox: Inbox<Order>) -> io::Result<Candidate> {
    let store = election.store().clone();
    Candidate::start(election, move |news| {
        let waiting = |leader, trouble| Order::Follow(Waiting { leader, trouble });
        inbox.send(match news {
            News::Leads(term, loaded) => {
                let state = loaded.0.clone();
                let clock = Box::new(clock::monotonic);
                let keeper = Keeping::new(store.clone(), term, *loaded, clock);
                Order::Lead(Box::new(keeper) as Box<dyn Keeper>, Box::new(state))
            }
            News::Follows(leader) => waiting(leader, None),
            News::Foreign(leader) => Order::End(leader),
            News::Trouble(why) => waiting(None, Some(why)),
        });
    })
}

/// A monitor, as the admin listener sees it.
struct Observable(Inbox<Order>);

impl Observed for Observable {
    const PATHS: &str = "/ (the dashboard), /healthz, /readyz, /status or /metrics";

    fn tell(&self, path: &[u8]) -> Option<Told> {
        const SILENT: &str = "the monitor does not answer";
        let Some(asked) = Asked::of(path) else {
            return ask::page(path, panels::SERVER, Err(SILENT));
        };
        let ailment = admin::ailment(std::slice::from_ref(&self.0));
        let told = match ailment {
            Some(_) => None,
            None => ask::ask(|to| self.0.send(Order::Tell(asked, to))),
        };
        let why = ailment.unwrap_or(SILENT);
        Some(match (asked, told) {
            (Asked::Dashboard, told) => {
                let board = told.and_then(|told| told.board).ok_or(why);
                return ask::page(path, panels::SERVER, board);
            }
            (_, None) => Told::health(Some(why)),
            (Asked::Health, Some(_)) => Told::health(None),
            (Asked::Ready, Some(told)) => Told::health(told.follows.as_deref()),
            (Asked::Status, Some(told)) => Told::json(told.status),
            (Asked::Metrics, Some(told)) => {
                let encode =
                    move |to: &mut rhythm_observe::Writer<'_>| figures::encode(&told.numbers, to);
                Told::figures(rhythm_observe::encode("rhythm_venice_monitor", encode))
            }
        })
    }
}

#[cfg(test)]
mod tests;
