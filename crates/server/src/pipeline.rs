//! The pipeline: the life of a request, from its connection through a cohort and back (paper,
//! section 3.2, figure 4).
//!
//! ```text
//!  connections                                                             one file each
//!      |  bytes
//!      v
//!   Reader     whole requests, limits, back-pressure                       reader.rs, connection.rs
//!      v
//!   Parser     route, parameters, cookie -> a lane of a cohort             parser.rs, params.rs, routes.rs
//!      v
//!   Dispatch   cohort pool ----------------+--> host path: files, errors   dispatch.rs, statics.rs
//!      v  full / timeout / idle / drain    |
//!   Process    sessions, device, backend, device, ...                      process.rs, backend/
//!      v                                   |
//!   Response   heads, stitching, order     v                               response.rs
//!      |
//!      v  bytes
//!  connections
//! ```
//!
//! It is a [`Handler`]: events and the time come in, effects go out through a [`Port`]. It does no
//! I/O and reads no clock, so that a simulator can run it with virtual sockets and virtual time.
//! One thread owns it; it shares with others of its kind only the session array and the site.
//!
//! Nothing in it grows with the load: lanes are bounded by the cohort pool, requests by the lanes,
//! input by the stalls of its connections, which reach back to the sockets.

use crate::answer::response::Random;
use crate::backend::{Ask, Backend};
use crate::flight::process::{Asked, CohortKey, Run};
use crate::flight::request::Requests;
use crate::intake::params::ParamReader;
use crate::observe::access_log::LogSink;
use crate::observe::metrics::{BackendMetrics, PageMetrics, WorkerMetrics};
use crate::site::routes::Captures;
use crate::site::{BackendSettings, Site};
use rhythm_cohort::{Circumstances, ContextId, Formation, LaunchReason, Pool};
use rhythm_engine::cohort::Cohort;
use rhythm_engine::device::{Executor, Work};
use rhythm_engine::session::SessionArray;
use rhythm_http::{ClientLimits, Clients};
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Port, Time, Token};
use rhythm_protocol::http::date::DateCache;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The numbers that bound a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct PipelineOptions {
    /// Cohort contexts, at least 1.
    pub contexts: usize,
    /// When cohorts are launched, and how large they get.
    pub formation: Formation,
    /// Limits of clients' connections.
    pub clients: ClientLimits,
}

/// Makes a site's backend, by its index, for one pipeline.
pub type BackendFactory = Box<dyn FnMut(&Site, usize) -> Box<dyn Backend>>;

/// All that a pipeline depends on.
pub struct PipelineParts {
    /// What is served.
    pub site: Arc<Site>,
    /// What runs the pages' stages.
    pub executor: Box<dyn Executor>,
    /// Where the pages' data comes from.
    pub backends: BackendFactory,
    /// Who is logged in; shared with the other pipelines.
    pub sessions: Arc<SessionArray>,
    /// 128 bits that nobody can predict, for session ids.
    pub random: Random,
    /// Where it counts.
    pub metrics: Arc<WorkerMetrics>,
    /// The access log, if there is one.
    pub log: Option<LogSink>,
    /// The time at which it begins.
    pub now: Time,
}

/// A site as one pipeline serves it, from one reload to the next.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub(crate) number: u32,
    pub(crate) site: Arc<Site>,
    /// Figures of its pages.
    pub(crate) pages: Vec<Arc<PageMetrics>>,
    /// For each backend of the service, its index among the pipeline's.
    pub(crate) backends: Vec<usize>,
}

/// A backend, and who it is.
pub(crate) struct BackendSlot {
    settings: BackendSettings,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) metrics: Arc<BackendMetrics>,
}

/// The state machine. See the module's text.
pub struct Pipeline {
    /// What is served now. Cohorts under way keep the epoch they began in.
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) clients: Clients,
    /// The time of the event at hand.
    pub(crate) now: Time,
    pub(crate) requests: Requests,
    pub(crate) pool: Pool<CohortKey, Cohort>,
    /// Beside each context of the pool.
    pub(crate) runs: Vec<Run>,
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) backends: Vec<BackendSlot>,
    pub(crate) asked: Asked,
    pub(crate) sessions: Arc<SessionArray>,
    pub(crate) random: Random,
    pub(crate) date: DateCache,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) log: Option<LogSink>,
    formation: Formation,
    make_backend: BackendFactory,
    /// Connections that wait for a free context, longest first.
    pub(crate) waiters: VecDeque<ConnectionId>,
    /// A context was freed since they were last looked at.
    pub(crate) freed: bool,
    /// Cohorts that the device had no slot for.
    pub(crate) ready: VecDeque<ContextId>,
    /// When draining ends, whatever is left.
    drain_until: Option<Time>,
    /// When the gauges were last set, and whether anything has happened since.
    gauges_at: Time,
    gauges_stale: bool,
    /// Lanes answered in this turn: their page, when they were launched, how many.
    pub(crate) served: Vec<(Arc<PageMetrics>, Time, u64)>,
    // Memory kept from call to call.
    pub(crate) captures: Captures,
    pub(crate) params: ParamReader,
    pub(crate) users: Vec<Option<i64>>,
    pub(crate) batch: Vec<Ask>,
    pub(crate) done: Vec<Work>,
    pub(crate) complete: Vec<ContextId>,
    expired: Vec<ConnectionId>,
}

/// How often gauges are set.
const GAUGES_EVERY: Duration = Duration::from_millis(100);
/// Slots of the session array examined each time gauges are set, so that expired sessions are found
/// in time.
const SWEEP_SLOTS: usize = 1024;

/// The time as the cohort pool counts it.
pub(crate) fn since_origin(now: Time) -> Duration {
    now.since(Time::ZERO)
}

impl Pipeline {
    /// A pipeline without connections.
    pub fn new(parts: PipelineParts, options: PipelineOptions) -> Pipeline {
        let contexts = options.contexts.max(1);
        let mut pipeline = Pipeline {
            epoch: Arc::new(Epoch {
                number: 0,
                site: parts.site.clone(),
                pages: Vec::new(),
                backends: Vec::new(),
            }),
            clients: Clients::new(options.clients, parts.now),
            now: parts.now,
            requests: Requests::default(),
            pool: Pool::new(contexts, options.formation.lanes_max),
            runs: (0..contexts).map(|_| Run::default()).collect(),
            executor: parts.executor,
            backends: Vec::new(),
            asked: Asked::default(),
            sessions: parts.sessions,
            random: parts.random,
            date: DateCache::new(0),
            metrics: parts.metrics,
            log: parts.log,
            formation: options.formation,
            make_backend: parts.backends,
            waiters: VecDeque::new(),
            freed: false,
            ready: VecDeque::new(),
            drain_until: None,
            gauges_at: Time::ZERO,
            gauges_stale: true,
            served: Vec::new(),
            captures: Captures::default(),
            params: ParamReader::default(),
            users: Vec::new(),
            batch: Vec::new(),
            done: Vec::new(),
            complete: Vec::new(),
            expired: Vec::new(),
        };
        pipeline.reload(parts.site);
        pipeline
    }

    /// Serves this site from now on. What is under way ends as it began.
    pub fn reload(&mut self, site: Arc<Site>) {
        let backends = (0..site.settings().backends.len())
            .map(|index| self.backend_slot(&site, index))
            .collect();
        let pages = site.service().pages.iter();
        self.epoch = Arc::new(Epoch {
            number: self.epoch.number.wrapping_add(1),
            pages: pages.map(|page| self.metrics.page(&page.name)).collect(),
            backends,
            site,
        });
    }

    /// The backend of these settings, an old one if there is one. Old ones are kept: their number
    /// is that of the reloads that changed them.
    fn backend_slot(&mut self, site: &Site, index: usize) -> usize {
        let settings = &site.settings().backends[index];
        let same = |slot: &BackendSlot| {
            (&slot.settings.name, &slot.settings.identity) == (&settings.name, &settings.identity)
        };
        self.backends.iter().position(same).unwrap_or_else(|| {
            self.backends.push(BackendSlot {
                settings: settings.clone(),
                backend: (self.make_backend)(site, index),
                metrics: self.metrics.backend(&settings.name),
            });
            self.backends.len() - 1
        })
    }

    /// Takes no more clients, answers what is under way, and has [finished](Handler::finished)
    /// then, or after `limit`.
    pub fn drain(&mut self, port: &mut dyn Port, now: Time, limit: Duration) {
        self.now = now;
        port.stop_accepting();
        self.drain_until.get_or_insert(now + limit);
        self.clients.drain(port, now);
    }

    /// Tells when a turn of the driver ended, `idle` included: the answers given in it have taken
    /// until then.
    pub fn turn_ended(&mut self, now: Time) {
        for (metrics, launched, lanes) in self.served.drain(..) {
            let took = now.since(launched).as_nanos() as u64;
            metrics.service_time.record(took, lanes);
        }
    }

    /// What must hold whenever no event is being handled, for tests and the simulator.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.pool.check()?;
        self.clients.check()?;
        let [free, .., busy] = self.pool.counts();
        if self.requests.len() > (self.pool.len() - free) * self.pool.lanes_max() {
            return Err(format!(
                "{} requests are more than the lanes",
                self.requests.len()
            ));
        }
        if self.requests.len() > 0 && free == self.pool.len() {
            return Err(format!(
                "{} requests are in no context",
                self.requests.len()
            ));
        }
        if self.asked.len() > 0 && free == self.pool.len() {
            return Err(format!(
                "{} backend requests are of no context",
                self.asked.len()
            ));
        }
        if self.executor.in_flight() > busy {
            return Err("the device has cohorts of contexts that are not busy".to_owned());
        }
        Ok(())
    }

    /// How many contexts are free, partially full, full and busy.
    pub fn contexts(&self) -> [usize; 4] {
        self.pool.counts()
    }

    /// How many requests are lanes of cohorts.
    pub fn requests_under_way(&self) -> usize {
        self.requests.len()
    }

    /// How many clients' connections are open.
    pub fn connections(&self) -> usize {
        self.clients.open()
    }

    /// Does what can be done without more input: what devices and backends have finished, and
    /// connections whose stall is over.
    fn work(&mut self, port: &mut dyn Port) {
        loop {
            let mut any = self.collect(port);
            any |= self.collect_answers(port);
            for _ in 0..self.ready.len() {
                if let Some(id) = self.ready.pop_front() {
                    self.submit(port, id);
                }
            }
            while let Some(id) = self.clients.next_unstalled() {
                self.proceed(port, id, false);
                any = true;
            }
            if std::mem::take(&mut self.freed) {
                any |= self.admit(port);
            }
            if !any {
                break;
            }
        }
    }

    /// Lets waiting connections try again, in their order, until one still finds no context.
    fn admit(&mut self, port: &mut dyn Port) -> bool {
        let mut any = false;
        for _ in 0..self.waiters.len() {
            let Some(id) = self.waiters.pop_front() else {
                break;
            };
            let before = self.waiters.len();
            self.proceed(port, id, true);
            any = true;
            if self.waiters.len() > before {
                self.waiters.rotate_right(1);
                break;
            }
        }
        any
    }

    /// Launches the cohorts that are to be launched now.
    fn launch_due(&mut self, port: &mut dyn Port) {
        loop {
            self.work(port);
            let Some((id, reason)) = self.next_launch() else {
                break;
            };
            self.launch(port, id, reason);
        }
    }

    /// A cohort to be launched, full ones first, then the oldest.
    fn next_launch(&self) -> Option<(ContextId, LaunchReason)> {
        if !self.ready.is_empty() {
            // The device has no slot: until it has one, what is forming may as well grow.
            return None;
        }
        let now = self.now;
        let idle = self.executor.in_flight() == 0;
        // Cohorts of stragglers go on when they have their answers.
        let new = |id: &ContextId| self.pool.key(*id).stage == 0;
        if let Some(id) = self.pool.full().find(new) {
            return Some((id, LaunchReason::Full));
        }
        self.pool.forming().filter(new).find_map(|id| {
            let reason = self.formation.decide(Circumstances {
                lanes: self.pool.cohort(id).len(),
                waited: since_origin(now).saturating_sub(self.pool.since(id)),
                idle,
                draining: self.clients.is_draining()
                    || self.pool.key(id).epoch != self.epoch.number,
            });
            reason.map(|reason| (id, reason))
        })
    }

    fn set_gauges(&mut self) {
        let now = self.now;
        if now < self.gauges_at + GAUGES_EVERY {
            return;
        }
        self.gauges_at = now;
        self.gauges_stale = false;
        self.metrics.connections.set(self.clients.open() as u64);
        for (gauge, count) in self.metrics.contexts.iter().zip(self.pool.counts()) {
            gauge.set(count as u64);
        }
        for (index, page) in self.epoch.pages.iter().enumerate() {
            let queued = self
                .pool
                .forming()
                .filter(|&id| self.pool.key(id).page as usize == index);
            page.queued
                .set(queued.map(|id| self.pool.cohort(id).len() as u64).sum());
        }
        for slot in &self.backends {
            let counts = slot.backend.counts();
            slot.metrics.retries.set(counts.retries);
            slot.metrics
                .circuit_open
                .set(u64::from(counts.circuit_open));
        }
        self.sessions
            .sweep(crate::answer::response::milliseconds(now), SWEEP_SLOTS);
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }

    /// The backend that a connection belongs to.
    fn backend_of(&mut self, id: ConnectionId) -> Option<&mut Box<dyn Backend>> {
        let slot = self
            .backends
            .iter_mut()
            .find(|slot| slot.backend.owns(id))?;
        Some(&mut slot.backend)
    }
}

impl Handler for Pipeline {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        self.begin(port, now);
        self.gauges_stale = true;
        self.metrics.accepted.add(1);
        self.clients.opened(accepted.connection, accepted.peer, now);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.begin(port, now);
        self.gauges_stale = true;
        if self.clients.has(id) {
            self.read(port, id, bytes);
        } else if let Some(backend) = self.backend_of(id) {
            backend.received(port, id, bytes, now);
        } else {
            // Nobody's: of a pipeline before this one, that panicked.
            port.abort(id);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.begin(port, now);
        self.gauges_stale = true;
        if self.clients.has(id) {
            match how {
                Ended::PeerFinished => self.clients.peer_finished(port, id, now),
                Ended::Failed(_) => self.clients.remove(id),
            }
        } else if let Some(backend) = self.backend_of(id) {
            backend.ended(port, id, how, now);
        } else {
            port.abort(id);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.begin(port, now);
        if self.clients.has(id) {
            self.clients.writable(port, id, now);
        } else if let Some(backend) = self.backend_of(id) {
            backend.writable(port, id, now);
        }
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.begin(port, now);
        if let Some(backend) = self.backend_of(id) {
            backend.connected(port, id, now);
        }
    }

    fn notified(&mut self, port: &mut dyn Port, _: Token, now: Time) {
        // A device has finished something: `idle` looks.
        self.begin(port, now);
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.begin(port, now);
        self.gauges_stale |= self.clients.wake_at().is_some_and(|at| at <= now);
        let mut expired = std::mem::take(&mut self.expired);
        self.clients.expire(port, now, &mut expired);
        for id in expired.drain(..) {
            self.refuse(port, id, 408);
        }
        self.expired = expired;
        for slot in &mut self.backends {
            if slot.backend.wake_at().is_some_and(|at| at <= now) {
                slot.backend.tick(port, now);
            }
        }
        self.work(port);
        self.check_waiting(port);
        if self.drain_until.is_some_and(|until| until <= now) {
            self.clients.abort_all(port);
        }
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.begin(port, now);
        loop {
            self.launch_due(port);
            self.clients.flush(port, now);
            if !self.clients.has_news() {
                break;
            }
        }
        self.set_gauges();
    }

    fn wake_at(&self) -> Option<Time> {
        let forming = (self.pool.forming())
            .filter(|&id| self.pool.key(id).stage == 0 && self.ready.is_empty())
            .map(|id| Time::ZERO + self.pool.since(id) + self.formation.delay)
            .min();
        let backends = self
            .backends
            .iter()
            .filter_map(|slot| slot.backend.wake_at())
            .min();
        [
            self.clients.wake_at(),
            forming,
            backends,
            self.waiting_until(),
            self.drain_until,
            (self.gauges_stale).then_some(self.gauges_at + GAUGES_EVERY),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn finished(&self) -> bool {
        self.drain_until.is_some_and(|until| {
            // Past the limit nothing is waited for: a backend may take longer than that.
            let over = self.requests.len() == 0 || until <= self.now;
            over && self.clients.open() == 0
        })
    }
}

impl Pipeline {
    /// The start of every event: what time it is.
    fn begin(&mut self, port: &mut dyn Port, now: Time) {
        // Of a turn whose end nobody told of.
        self.turn_ended(now);
        self.now = now;
        self.date.update(port.wall_clock().unix_seconds);
    }
}
