//! A run: a configuration, clients, a pipeline and a world from one seed, driven to the end and
//! checked.

mod ending;
mod sites;

use crate::backends::{BackendSabotage, Blame, FaultyBackend};
use crate::besim_server::{BesimServer, ServerSabotage};
use crate::clients::Client;
use crate::config::{Config, STALL};
use crate::device_server::DeviceServer;
use crate::devices::{DeviceSabotage, FaultyDevice};
use crate::disks::{DiskSabotage, FaultyDisk};
use crate::hosts::SlowHost;
use crate::manners::{Books, Shared};
use crate::reference::Reference;
use crate::remote_device::{Fates, RemoteDevice};
use crate::world::{MILLISECOND, SECOND, Sabotage, World};
use rhythm_cohort::Formation;
use rhythm_engine::device::conformance::Dice;
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_engine::session::{SessionArray, SessionRules, SignInRules, SignIns};
use rhythm_net::{Handler, Peer, Token};
use rhythm_protocol::scan::Level;
use rhythm_server::backend::besim::BesimWire;
use rhythm_server::backend::http_client::{BackendUrl, ResponseLimits};
use rhythm_server::backend::{Backend, ConnectionPool};
use rhythm_server::observe::metrics::WorkerMetrics;
use rhythm_server::{
    DeviceLink, Drain, Pipeline, PipelineOptions, PipelineParts, Site, Sites, Visitors,
};
use sites::sites;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Mistakes to plant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sabotages {
    pub(crate) world: Sabotage,
    pub(crate) device: DeviceSabotage,
    pub(crate) backend: BackendSabotage,
    pub(crate) server: ServerSabotage,
    pub(crate) disk: DiskSabotage,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// A hash of everything that happened.
    pub(crate) hash: u64,
    pub(crate) failure: Option<String>,
    pub(crate) pages: usize,
    pub(crate) others: usize,
    pub(crate) errors: usize,
    pub(crate) dropped: usize,
    /// What was met: pages, statuses, stragglers.
    pub(crate) seen: BTreeSet<String>,
}

/// Where BeSim's server is.
const BESIM_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 8)), 8081);

/// Where a device on another machine is.
const DEVICE_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)), 8082);

/// A plain executor.
fn executor(host: bool, pass_work: usize) -> Box<dyn Executor> {
    let limits = LaneLimits::default();
    match host {
        true => Box::new(HostExecutor::new(limits, Level::active()).in_passes_of(pass_work)),
        false => Box::new(ScalarExecutor::new(limits)),
    }
}

/// Runs a seed.
pub(crate) fn run(
    seed: u64,
    sabotages: Sabotages,
    reference: &mut Reference,
    trace: bool,
) -> Outcome {
    let mut dice = Dice::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
    let config = Config::of(&mut dice);
    let fork = |dice: &mut Dice| Dice::new(dice.roll());
    let mut world = World::new(fork(&mut dice), config.net, trace);
    world.sabotage = sabotages.world;
    if trace {
        eprintln!("{config:#?}");
    }
    let clock = Rc::new(Cell::new(world.now));
    let device_due = Rc::new(Cell::new(None));
    let local = FaultyDevice::new(
        executor(config.host, config.pass_work),
        config.device,
        sabotages.device,
        fork(&mut dice),
        clock.clone(),
        device_due.clone(),
    );
    let fates = Rc::new(Fates::default());
    let mut device_server = None;
    let device: Box<dyn DeviceLink> = match config.remote_device {
        None => Box::new(local),
        Some((faults, options)) => {
            let actor = config.clients.len() + 1;
            device_server = Some(DeviceServer::new(actor, faults, fork(&mut dice)));
            world.servers.push((DEVICE_ADDRESS, actor));
            // Its connection takes none from the backends.
            world.net.outgoing_max += 1;
            Box::new(RemoteDevice::new(
                Peer::tcp("device", DEVICE_ADDRESS),
                options,
                executor(!config.host, config.pass_work),
                Box::new(local),
                fates.clone(),
            ))
        }
    };
    let blame = Blame::default();
    let met = blame.clone();
    let backend_seed = dice.roll();
    let (backend_faults, backend_sabotage) = (config.backend, sabotages.backend);
    let mut besim_server = None;
    let mut remote = None;
    if let Some((faults, mut options)) = config.remote {
        let actor = config.clients.len();
        besim_server = Some(BesimServer::new(
            actor,
            faults,
            sabotages.server,
            fork(&mut dice),
        ));
        world.servers.push((BESIM_ADDRESS, actor));
        options.timeout = Duration::from_nanos(config.backend_timeout);
        options.connections_max = options.connections_max.min(config.net.outgoing_max);
        remote = Some(options);
    }
    let disk_due = Rc::new(Cell::new(None));
    let disk = FaultyDisk::new(
        config.disk,
        fork(&mut dice),
        clock.clone(),
        disk_due.clone(),
    );
    let host_owes = Rc::new(Cell::new(0));
    let host = SlowHost::new(fork(&mut dice), host_owes.clone());
    let mut random = fork(&mut dice);
    let sessions = Arc::new(SessionArray::with(SessionRules {
        per_user_max: config.sessions_of_user.0,
        reserve: config.sessions_of_user.1,
        ..SessionRules::new(config.sessions, config.session_timeout)
    }));
    let [per_user_max, failed_per_address_max] = config.sign_ins;
    let sign_ins = SignInRules {
        per_user_max,
        failed_per_address_max,
        window: 1000,
    };
    let sites = sites(reference, &config, sabotages.disk);
    let metrics = Arc::new(WorkerMetrics::default());
    let parts = PipelineParts {
        sites: Arc::new(Sites::from(sites[0].clone())),
        visitors: vec![Visitors {
            sessions: sessions.clone(),
            sign_ins: Arc::new(SignIns::new(sign_ins, 0)),
            seal_key: 0,
        }],
        device,
        backends: Box::new(move |_, _| -> Box<dyn Backend> {
            if let Some(options) = remote {
                let url: BackendUrl = "http://besim:8081/besim".parse().expect("a good URL");
                let wire = BesimWire::new(&url, ResponseLimits::default());
                let peers = vec![Peer::tcp(&*url.authority, BESIM_ADDRESS)];
                return Box::new(ConnectionPool::new(wire, "besim", peers, options));
            }
            let dice = Dice::new(backend_seed);
            Box::new(FaultyBackend::new(
                backend_faults,
                backend_sabotage,
                dice,
                met.clone(),
            ))
        }),
        hosts: vec![("slow".to_owned(), Box::new(host))],
        disk: Box::new(disk),
        random: Box::new(move || u128::from(random.roll()) << 64 | u128::from(random.roll())),
        metrics: metrics.clone(),
        log: None,
        spans: None,
        now: world.time(),
    };
    let options = PipelineOptions {
        contexts: config.contexts,
        waiting: config.waiting,
        formation: Formation {
            policy: config.policy,
            lanes_max: config.cohort,
            delay: Duration::from_nanos(config.delay),
        },
        cohort_bytes: config.cohort_bytes,
        clients: config.limits,
        clients_by: config.clients_by,
        watch: config.watch.clone(),
    };
    let mut clients = Vec::new();
    for (id, (manners, budget)) in config.clients.iter().enumerate() {
        let user = 1 + id as u32;
        clients.push(Client::new(id, user, *manners, fork(&mut dice), *budget));
        let start = world.dice.below(10 * MILLISECOND as usize) as u64;
        world.wake(id, start, 0);
    }
    let mut run = Run {
        pipeline: Pipeline::new(parts, options),
        world,
        clients,
        besim_server,
        device_server,
        shared: Shared {
            reference,
            epoch: 0,
            draining: false,
            drain: (u64::MAX, u64::MAX),
            explains: config.explains(),
            blame: config.remote.is_none().then_some(blame),
            books: Books::default(),
        },
        clock,
        device_due,
        disk_due,
        host_owes,
        sessions,
        metrics,
        sites,
        config,
        drain: None,
        turns: 0,
        idle_turns: 0,
        exited: false,
        listeners_closed: false,
        stalled: false,
    };
    run.go();
    let mut books = std::mem::take(&mut run.shared.books);
    let stragglers: u64 = STRAGGLING
        .map(|name| run.metrics.page(name).stragglers.get())
        .iter()
        .sum();
    let (answered, again, failed) = (&fates.answered, &fates.again, &fates.failed);
    for (count, what) in [
        (stragglers, "stragglers"),
        (answered.get(), "far stages"),
        (again.get(), "stages begun anew"),
        (failed.get(), "stages lost"),
        (run.metrics.gave_way.get(), "gave way"),
        (run.metrics.memory_waits.get(), "waited for memory"),
        (run.metrics.long_passes.get(), "long passes"),
    ] {
        if count > 0 {
            books.seen.insert(what.to_owned());
        }
    }
    Outcome {
        hash: run.world.hash,
        failure: run.world.failure.take(),
        pages: books.pages,
        others: books.others,
        errors: books.errors,
        dropped: books.dropped,
        seen: books.seen,
    }
}

struct Run<'a> {
    world: World,
    pipeline: Pipeline,
    clients: Vec<Client>,
    besim_server: Option<BesimServer>,
    device_server: Option<DeviceServer>,
    shared: Shared<'a>,
    clock: Rc<Cell<u64>>,
    device_due: Rc<Cell<Option<u64>>>,
    disk_due: Rc<Cell<Option<u64>>>,
    host_owes: Rc<Cell<usize>>,
    sessions: Arc<SessionArray>,
    metrics: Arc<WorkerMetrics>,
    sites: [Arc<Site>; 2],
    config: Config,
    drain: Option<Drain>,
    turns: usize,
    idle_turns: usize,
    exited: bool,
    /// The server was told that all who waited are in.
    listeners_closed: bool,
    /// Its loop was kept from its core.
    stalled: bool,
}

/// Pages that many ask for.
const STRAGGLING: [&str; 3] = ["login", "check_detail_image", "quick_pay"];
/// Reloads of a run.
const RELOADS_MAX: usize = 50;
/// More turns than any run takes.
const TURNS_MAX: usize = 400_000;
/// Turns one after the other for which the server asks at once.
const IDLE_TURNS_MAX: usize = 1000;
/// Where floods have work for them.
const FLOODED_TURNS_MAX: usize = 10_000;

impl Run<'_> {
    fn go(&mut self) {
        let start = self.world.now;
        let mut drain_at = match self.config.drain_at {
            0 => u64::MAX,
            after => start + after,
        };
        let mut reload_at = match self.config.reload_every {
            0 => u64::MAX,
            every => start + every,
        };
        let mut hasten = self.config.hasten_after.into_iter();
        // The slowest that clients can be, and more.
        let limit = start + 20_000 * SECOND;
        while self.ok() && !self.clients.iter().all(|client| client.done) {
            if !self.turn(limit, drain_at.min(reload_at)) {
                return self.stuck("nothing more happens");
            }
            if self.world.now >= limit {
                return self.stuck("it takes too long");
            }
            if self.world.now >= reload_at {
                self.shared.epoch += 1;
                self.world.note("reload", self.shared.epoch as u64, 0);
                let site = self.sites[self.shared.epoch % 2].clone();
                self.pipeline.reload(Arc::new(Sites::from(site)));
                reload_at = match self.shared.epoch < RELOADS_MAX {
                    true => self.world.now + self.config.reload_every,
                    false => u64::MAX,
                };
            }
            if self.world.now >= drain_at {
                self.drain();
                (drain_at, reload_at) = (u64::MAX, u64::MAX);
                // Again, where it is to be hastened.
                if let Some(after) = hasten.next().filter(|after| *after != 0) {
                    drain_at = self.world.now + after;
                }
            }
        }
        if self.ok() && !self.shared.draining {
            self.quiesce();
        }
        if self.ok() {
            self.finish();
        }
    }

    fn ok(&self) -> bool {
        self.world.failure.is_none()
    }

    fn stuck(&mut self, why: &str) {
        let waiting: Vec<String> = self
            .clients
            .iter()
            .filter(|client| !client.done)
            .map(Client::state)
            .collect();
        let contexts = self.pipeline.contexts();
        self.world.fail(format!(
            "{why}; contexts {contexts:?}; {}",
            waiting.join("\n")
        ));
    }

    /// One turn of the event loop, at the next time at which something happens, and not beyond
    /// `limit`. Whether there was anything to wait for.
    fn turn(&mut self, limit: u64, other: u64) -> bool {
        let ended = self.pipeline.finished();
        let wake_at = self.pipeline.wake_at().map(|time| time.as_nanos());
        let wake_at = wake_at.filter(|_| !ended);
        let next = [
            self.world.next_time(),
            wake_at,
            self.device_due.get().filter(|_| !ended),
            self.disk_due.get().filter(|_| !ended),
            Some(other),
        ];
        let Some(mut next) = next
            .into_iter()
            .flatten()
            .filter(|time| *time != u64::MAX)
            .min()
        else {
            return false;
        };
        // A server that asks to be woken at once, again and again, without anything happening.
        self.idle_turns = match wake_at.is_some_and(|at| at <= self.world.now) {
            true => self.idle_turns + 1,
            false => 0,
        };
        self.turns += 1;
        let idle_max = match self.config.floods {
            true => FLOODED_TURNS_MAX,
            false => IDLE_TURNS_MAX,
        };
        if self.idle_turns > idle_max || self.turns > TURNS_MAX {
            self.stuck("the server does not come to rest");
            return true;
        }
        if self.stall() {
            next = self.world.now;
        }
        // Loops are late now and then; beside floods it is their turns that are looked at.
        if !self.config.floods && self.world.dice.once_in(4) {
            next = next.max(self.world.now) + self.world.dice.below(MILLISECOND as usize) as u64;
        }
        self.world.go_to(next.min(limit));
        self.clock.set(self.world.now);
        self.tell_clients();
        if ended {
            if !std::mem::replace(&mut self.exited, true) {
                if self.world.has_backlog() && self.world.now < self.shared.drain.1 {
                    self.world.fail("clients that wait to be let in are reset");
                }
                self.world.exit();
            }
            self.tell_clients();
            return true;
        }
        let is_due = |due: &Cell<Option<u64>>| due.get().is_some_and(|due| due <= self.world.now);
        if is_due(&self.device_due) || is_due(&self.disk_due) {
            let now = self.world.time();
            self.pipeline.notified(&mut self.world, Token(0), now);
        }
        let heard = self.world.report(&mut self.pipeline);
        if self.pipeline.wake_at().is_some_and(|at| at <= heard) {
            self.pipeline.tick(&mut self.world, heard);
        }
        let now = self.world.time();
        self.pipeline.idle(&mut self.world, now);
        let end = self.world.end_turn();
        self.pipeline.turn_ended(match self.world.sabotage {
            Sabotage::HideTurns => now,
            _ => end,
        });
        self.clock.set(self.world.now);
        if self.world.stopped_accepting != u64::MAX
            && !self.listeners_closed
            && !self.world.has_backlog()
        {
            self.listeners_closed = true;
            self.pipeline.listeners_closed();
        }
        if self.pipeline.files_under_way() > 0 {
            let what = "files read meanwhile".to_owned();
            self.shared.books.seen.insert(what);
        }
        if let Err(why) = self.pipeline.check() {
            self.world.fail(why);
        }
        // Where no lanes wait for a backend or the device's slots, those of a forming cohort wait
        // for its launch: in time.
        let forming = self.pipeline.contexts()[1] > 0;
        let slots = self.config.device.slots != 0 || self.config.remote_device.is_some();
        let waits = !self.config.backend.embedded || slots;
        if forming && self.config.remote.is_none() && !waits {
            let latest = now + Duration::from_nanos(self.config.delay);
            if self.pipeline.wake_at().is_none_or(|at| at > latest) {
                self.world
                    .fail("a cohort is formed for longer than its delay");
            }
        }
        self.tell_clients();
        true
    }

    /// Once in a run where that is to be, when connections are being opened, the loop is kept from
    /// its core for longer than that may take, while the world goes on.
    fn stall(&mut self) -> bool {
        let stalls = self.config.stalls && !self.stalled;
        let is_time = stalls && self.world.is_connecting(self.clients.len());
        if !is_time || !self.world.dice.once_in(3) {
            return false;
        }
        self.stalled = true;
        self.shared.books.seen.insert("a stall".to_owned());
        let end = self.world.now + STALL;
        while let Some(at) = self.world.next_event().filter(|at| *at < end) {
            self.world.go_to(at);
            self.tell_clients();
        }
        self.world.stalled_until(end);
        true
    }

    fn tell_clients(&mut self) {
        while let Some((actor, event)) = self.world.far_events.pop_front() {
            if let Some(client) = self.clients.get_mut(actor) {
                client.tell(event, &mut self.world, &mut self.shared);
            } else if actor == self.clients.len() {
                if let Some(server) = &mut self.besim_server {
                    server.tell(event, &mut self.world);
                }
            } else if let Some(server) = &mut self.device_server {
                server.tell(event, &mut self.world);
            }
        }
    }
}
