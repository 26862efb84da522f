//! The server: threads on `rhythm_net`, each with its connections and its datagrams, one store.
//!
//! ```text
//!   Server::start(settings) -- sockets --> threads: Worker     share the store and counters
//!                 |                          ^
//!                 +-- Handle: end, users ----+
//!                 +-- admin: health, figures (if asked for, on a thread of its own)
//! ```

mod admin;
mod alone;
mod backbone;
mod client;
mod files;
mod held;
mod listen;
mod memory;
mod orders;
mod prepare;
mod udp;
mod worker;

pub use alone::Alone;
pub use files::needed as files_needed;
pub use listen::{Address, BindError};

use crate::lines;
use crate::membership::Membership;
use crate::registration::{Kept, Registration, RegistrationError};
use crate::ring::{NODES_MAX, SESSIONS, cas_ids};
use crate::shared::{Settings, Shared, Standing, Start};
use crate::store::{CasIds, FileError, OpenError, Store, StoreError, StoreOptions};
use crate::wire::Users;
use admin::Listening;
use backbone::Backbone;
use listen::Way;
use orders::{GRACE, Order, RingOrder};
use prepare::Preparer;
use rhythm_net::workers::{self, Entrance, WorkerError, WorkerOptions, WorkerThread, Workers};
use rhythm_net::{DriverOptions, Inbox, Places, StartError, clock};
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use worker::{Ring, Worker, held_least};

/// The nice value of the ring's thread.
const BACKBONE_NICE: i32 = -10;
/// The longest datagram (memcached's receive buffer). The 64 beside it put the datagrams of a batch
/// into different sets of the caches, which a power of two would not.
const DATAGRAM_BYTES: usize = 65_536 + 64;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Where it is to listen.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Memory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file of `-e`.
    #[error("-e: {0}")]
    File(FileError),
    /// The system.
    #[error("the server cannot start: {0}")]
    System(io::Error),
    /// Where etcd knows the ring: its place there.
    #[error("--ring: {0}")]
    Register(RegistrationError),
    /// The threads.
    #[error("the server cannot start: {0}")]
    Start(StartError<StoreError>),
    /// The thread of the admin listener.
    #[error("the server cannot start: {0}")]
    Admin(StartError<Infallible>),
}

/// Why a server ended that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// A thread could not go on.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// As a node of a ring: where etcd knows who is in it.
    #[error(
        "another node has this one's place in the ring: what it served is with those who have \
         copies; start it again"
    )]
    Replaced,
}

/// A server that runs.
pub struct Server {
    addresses: Vec<Address>,
    workers: Workers<Order>,
    /// The thread of the ring, if the server is in one.
    backbone: Option<Workers<RingOrder>>,
    /// What keeps its place in the ring, where etcd has that.
    registration: Option<Kept>,
    is_ending: Arc<AtomicBool>,
    admin: Listening,
    preparer: Preparer,
    shared: Arc<Shared>,
}

/// Acts on a server from another thread.
#[derive(Clone)]
pub struct Handle {
    workers: Arc<[Inbox<Order>]>,
    ring: Option<Inbox<RingOrder>>,
    is_ending: Arc<AtomicBool>,
    standing: Arc<Standing>,
}

impl Handle {
    /// Ends it at once; [`Server::join`] returns.
    pub fn stop(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.workers.iter().for_each(Inbox::stop);
    }

    /// Ends it when what has come is answered and the answers are taken, or after 5 seconds; who
    /// asks for nothing is not waited for. A node of a ring first hands over what it serves.
    pub fn end(&self) {
        self.end_within(GRACE);
    }

    /// The same, but without a ring after so long.
    pub fn end_within(&self, within: Duration) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(ring) = &self.ring {
            return ring.send(RingOrder::Leave);
        }
        // Before they are told: who begins anew meanwhile is to know it, too.
        self.standing.end_at(clock::monotonic() + within);
        self.workers.iter().for_each(|inbox| inbox.send(Order::End));
    }

    /// From now on these users may come in.
    pub fn set_users(&self, users: Arc<Users>) {
        self.standing.set_users(users);
        (self.workers.iter()).for_each(|inbox| inbox.send(Order::Users));
    }
}

impl Server {
    /// Starts to serve: clients can connect when it returns. `on_shut_down` is called when a client
    /// shuts the server down, with true for gracefully.
    ///
    /// A node that etcd is to know registers there when it has all that it needs, sockets and
    /// memory, since the others count on it from then on.
    ///
    /// # Errors
    /// Where it cannot listen or register, or the system has no memory or threads for it.
    pub fn start(
        settings: Settings,
        on_shut_down: impl Fn(bool) + Send + 'static,
    ) -> Result<Server, ServerError> {
        Server::start_unless(settings, || false, || true, on_shut_down)
    }

    /// The same, where it may be told to end while it starts, of which `is_told` knows: then it
    /// does no more than it has to before it can be. Each time before etcd may come to know of it,
    /// it is asked whether it `may_register`.
    ///
    /// # Errors
    /// As those of [`start`](Self::start).
    pub fn start_unless(
        settings: Settings,
        is_told: impl Fn() -> bool,
        may_register: impl Fn() -> bool,
        on_shut_down: impl Fn(bool) + Send + 'static,
    ) -> Result<Server, ServerError> {
        let threads = settings.threads.max(1);
        let mut settings = Settings {
            threads,
            ..settings
        };
        let (places, lack) = files::places(&settings, settings.open_files);
        if let Some(lack) = lack {
            tracing::warn!("{lack}");
        }
        settings.connections_max = places.clients as u32;
        // The addresses are had first, as they may be another's; who connects is refused until the
        // memory is there, which may take seconds.
        let entrances = listen::bind(&settings)?;
        let way = listen::backbone(&settings)?;
        let admin = Listening::start(listen::admin(&settings)?, &settings);
        let admin = admin.map_err(ServerError::Admin)?;
        let start_unix = unix_now();
        let in_ring = way.is_some();
        let options = StoreOptions {
            memory: settings.memory as usize,
            memory_max: settings.memory_max as usize,
            item_max: settings.item_max as usize,
            evict: settings.evict,
            cas: settings.cas,
            cas_ids: CasIds {
                step: if in_ring { NODES_MAX as u64 } else { 1 },
                ..CasIds::default()
            },
            // One for the thread of the ring.
            workers: threads + usize::from(in_ring),
            resident: settings.resident,
            ..StoreOptions::default()
        };
        let opened = memory::store(&settings, options, start_unix);
        let (store, second) = opened.map_err(|error| match error {
            OpenError::File(error) => ServerError::File(error),
            OpenError::Store(error) => ServerError::Store(error),
        })?;
        let start = Start::new(clock::monotonic(), start_unix).going_on(second);
        let (store, memory_file) = (Arc::new(store), settings.memory_file.clone());
        // No thread has begun to change the items yet, or all have ended.
        let leave = |_: &ServerError| {
            let clock = start.clock(clock::monotonic());
            memory::leave(memory_file.as_deref(), &store, clock, true, unix_now());
        };
        if settings.resident {
            let mebibytes = settings.memory >> 20;
            tracing::info!(
                mebibytes,
                "memory is made resident (-L) before clients are let in"
            );
        }
        let preparer = Preparer::start(&store, is_told).map_err(ServerError::System);
        let preparer = preparer.inspect_err(leave)?;
        if let Some(candidate) = settings.candidate.take() {
            let registered = candidate.register(|why| admin.waits_for(why), may_register);
            let registered = registered.map_err(ServerError::Register);
            settings.ring = Some(registered.inspect_err(leave)?);
        }
        let registration = settings.ring.as_ref().and_then(|ring| ring.etcd.clone());
        // Later than its earlier lives, for one of which it may just have waited.
        let session = session();
        if let Some(ring) = &settings.ring {
            store.begin_cas_ids(cas_ids(ring.me, session).from);
        }
        let shared = Shared::new(settings, Arc::clone(&store), start, on_shut_down);
        let (shared, way) = (Arc::new(shared), way.map(|way| (way, session)));
        Server::on(&shared, entrances, places, way, (admin, preparer))
            .inspect_err(leave)
            .inspect_err(|_| registration.into_iter().for_each(Registration::withdraw))
    }

    /// Starts the threads of a server that has all else, and its session as a node of a ring.
    fn on(
        shared: &Arc<Shared>,
        (entrances, addresses): (Vec<Entrance>, Vec<Address>),
        places: files::Places,
        way: Option<(Way, u64)>,
        (admin, preparer): (Listening, Preparer),
    ) -> Result<Server, ServerError> {
        let settings = &shared.settings;
        let threads = settings.threads;
        let entrance = way.as_ref().map(|((entrance, _), _)| entrance);
        listen::begin(&entrances, entrance)?;
        let crowded_cure = match places.are_all {
            true => "raise -c (--conn-limit)",
            false => "raise the limit on open files",
        };
        let worker_options = WorkerOptions {
            name: "kv",
            threads,
            pin: settings.pin,
            driver: DriverOptions {
                connections_max: places.clients + places.beside,
                places: Some(Arc::new(Places::new(places.clients + places.beside))),
                crowded_cure,
                outgoing_max: 0,
                datagram_bytes: DATAGRAM_BYTES,
                busy_poll: settings.busy_poll,
                ..DriverOptions::default()
            },
            ..WorkerOptions::default()
        };
        let held_most = (settings.buffers_max / threads).max(held_least(settings));
        let in_ring = settings.ring.as_ref().zip(way);
        let backbone = in_ring.map(|(ring, way)| start_backbone(ring, way, shared));
        let backbone = backbone.transpose()?;
        let registration = match (&backbone, &settings.ring) {
            (
                Some(backbone),
                Some(Membership {
                    etcd: Some(etcd), ..
                }),
            ) => {
                let inbox = backbone.inboxes()[0].clone();
                let kept = etcd
                    .clone()
                    .keep(move |news| inbox.send(RingOrder::News(news)));
                Some(kept.map_err(ServerError::System)?)
            }
            _ => None,
        };
        let of_workers = Arc::clone(shared);
        let ring = backbone.as_ref().map(|backbone| {
            let ring = shared.settings.ring.as_ref();
            let how = ring.map(|ring| (ring.scheme, ring.replicate.acked()));
            (backbone.inboxes()[0].clone(), how.unwrap_or_default())
        });
        let make = move |thread: WorkerThread<'_, Order>| {
            let shared = Arc::clone(&of_workers);
            if thread.restarts > 0 {
                shared.figures(thread.index).restarts.add(1);
            }
            let store = Store::worker(&shared.store)?;
            let now = clock::monotonic();
            let view = shared.ring.clone();
            let worker = Worker::new(shared, thread.index, store, held_most, now);
            Ok(match (view, &ring) {
                (Some(view), Some((backbone, how))) => {
                    let backbone = backbone.clone();
                    worker.in_ring(Ring::new(view, backbone, thread.index, *how, now))
                }
                _ => worker,
            })
        };
        let workers = workers::start(&worker_options, entrances, make);
        let workers = match workers {
            Ok(workers) => workers,
            Err(error) => {
                if let Some(backbone) = backbone {
                    backbone.stop();
                }
                return Err(ServerError::Start(error));
            }
        };
        if let Some(backbone) = &backbone {
            let all = workers.inboxes().to_vec();
            backbone.inboxes()[0].send(RingOrder::Workers(all));
        }
        let is_ending = Arc::default();
        admin.serves(shared, &workers, &is_ending);
        Ok(Server {
            addresses,
            workers,
            backbone,
            registration,
            is_ending,
            admin,
            preparer,
            shared: Arc::clone(shared),
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where health and figures are told, if anywhere.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.address()
    }

    /// What acts on it from another thread.
    pub fn handle(&self) -> Handle {
        Handle {
            workers: self.workers.inboxes().into(),
            ring: (self.backbone.as_ref()).map(|ring| ring.inboxes()[0].clone()),
            is_ending: Arc::clone(&self.is_ending),
            standing: Arc::clone(&self.shared.standing),
        }
    }

    /// Waits until it has ended. Then its items are in the memory file, if it has one.
    ///
    /// # Errors
    /// It was not told to end: a thread could not go on, or it lost its place in the ring.
    pub fn join(self) -> Result<(), EndError> {
        let mut ended = self.workers.join().map_err(EndError::from);
        if let Some(backbone) = self.backbone {
            backbone.inboxes()[0].send(RingOrder::Go);
            ended = ended.and(backbone.join().map_err(EndError::from));
        }
        if self.shared.is_replaced.load(Ordering::Acquire) {
            ended = ended.and(Err(EndError::Replaced));
        }
        drop(self.registration);
        drop(self.admin);
        drop(self.preparer);
        let (settings, store) = (&self.shared.settings, &self.shared.store);
        let (file, clock) = (
            settings.memory_file.as_deref(),
            self.shared.clock(clock::monotonic()),
        );
        memory::leave(file, store, clock, ended.is_ok(), unix_now());
        ended
    }
}

/// The second of the calendar.
fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The session in which a node that begins now speaks to others: greater than those of its earlier
/// lives, unless the clock was set back.
fn session() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let session = since.map_or(0, |since| since.as_nanos() as u64);
    // Lives that begin in one millisecond are not to be told apart.
    (session - session % SESSIONS).max(SESSIONS)
}

/// Starts the thread of the ring. It knows its workers when they are there.
fn start_backbone(
    ring: &Membership,
    ((entrance, link), session): (Way, u64),
    shared: &Arc<Shared>,
) -> Result<Workers<RingOrder>, ServerError> {
    let (incoming, outgoing) = files::of_ring(ring.roster().places());
    let options = WorkerOptions {
        name: "kv ring",
        // What it knew is lost: then the server ends, and comes back as a new node.
        restarts_max: 0,
        driver: DriverOptions {
            connections_max: incoming,
            outgoing_max: outgoing,
            unacknowledged_max: Some(lines::UNACKNOWLEDGED_MAX),
            datagram_bytes: link.map_or(0, |link| link.frame_bytes_max),
            ..DriverOptions::default()
        },
        ..WorkerOptions::default()
    };
    let (shared, ring) = (Arc::clone(shared), ring.clone());
    let make = move |_: WorkerThread<'_, RingOrder>| {
        // What it says is awaited by other nodes, which take it for dead otherwise, and it is
        // little: it comes before the workers where that is allowed (CAP_SYS_NICE).
        let _ = setpriority_process(Some(gettid()), BACKBONE_NICE);
        let store = Store::worker(&shared.store)?;
        let now = clock::monotonic();
        Ok(Backbone::new(
            Arc::clone(&shared),
            &ring,
            link,
            session,
            store,
            now,
        ))
    };
    workers::start(&options, vec![entrance], make).map_err(ServerError::Start)
}
