//! The pipeline: the life of a request, from its connection through a cohort and back (paper,
//! section 3.2, figure 4).
//!
//! ```text
//!  connections
//!      |  bytes                                                            crate http
//!      v
//!   Reader     whole requests, limits, back-pressure                       crate http
//!      v
//!   Dispatch   a page's cohort -------------+--> files, errors, hosts     intake/dispatch.rs
//!      v                                    |
//!   Parser     parameters, cookie -> a lane |                              intake/parser.rs
//!      v                                    |
//!   Former     which is launched when       |                              flight/former.rs
//!      v                                    |
//!   Process    device, backend, device, ... |                              flight/
//!      v                                    v
//!   Responder  heads, stitching, order                                     answer/
//!      |
//!      v  bytes
//!  connections
//! ```
//!
//! It is a [`Handler`] (events.rs): events and the time come in, effects go out through a [`Port`].
//! It does no I/O and reads no clock, so that a simulator can run it with virtual sockets and
//! virtual time. One thread owns it; it shares with others of its kind only the session array and
//! the site.
//!
//! Its parts know nothing of it and do not call each other: each takes what it works on and gives
//! what came of it, which is handed on here.
//!
//! Nothing in it grows with the load: lanes are bounded by the cohort pool, requests by the lanes,
//! input by the stalls of its connections, which reach back to the sockets.
//!
//! [`Handler`]: rhythm_net::Handler

mod events;
mod gauges;
mod hosts;
mod parts;

pub use parts::PipelineParts;

use crate::answer::responder::Responder;
use crate::answer::sessions::Sessions;
use crate::drain::Drain;
use crate::flight::asker::ClientsBy;
use crate::flight::backends::{Asked, Backends};
use crate::flight::cohorts::{Cohorts, NotOpen};
use crate::flight::device::Device;
use crate::flight::former::{Former, Outlook};
use crate::host::files::{STREAM_BYTES_EXPECTED, SharedFiles};
use crate::intake::dispatch::{SiteAnswer, Way, dispatch, early_refusal};
use crate::intake::parser::Parser;
use crate::observe::metrics::WorkerMetrics;
use crate::options::PipelineOptions;
use crate::site::Site;
use crate::site::epoch::Epoch;
use crate::site::routes::PatternId;
use gauges::Gauges;
use rhythm_cohort::{ContextId, LaunchReason};
use rhythm_engine::cohort::{Go, LaneError};
use rhythm_http::{Clients, HostId, Hosts, Incoming, Next, Owed, Reading, Stall};
use rhythm_net::{ConnectionId, Port, Time};
use rhythm_protocol::http::conditional::Conditions;
use std::sync::Arc;

/// The state machine. See the module's text.
pub struct Pipeline {
    /// What is served now. Cohorts under way keep the epoch they began in.
    epoch: Arc<Epoch>,
    /// Bytes in and out, in order, of all connections.
    clients: Clients,
    /// Requests into lanes.
    parser: Parser,
    /// What tells clients apart.
    clients_by: ClientsBy,
    /// Lanes into cohorts.
    former: Former,
    /// The cohorts, wherever they are.
    cohorts: Cohorts,
    /// Stages of cohorts.
    device: Device,
    /// What stages ask.
    backends: Backends,
    /// What answers without cohorts, now or later.
    hosts: Hosts,
    /// The host of files that are read while they are sent, and its name.
    files: (SharedFiles, HostId),
    /// Finished lanes into bytes.
    responder: Responder,
    metrics: Arc<WorkerMetrics>,
    /// How many more connections whose stall is over may go on in this turn.
    resumes: usize,
    /// How it ends, once it is to.
    drain: Option<Drain>,
    /// The listeners are closed.
    nobody_comes: bool,
    /// The time of the last event.
    now: Time,
    gauges: Gauges,
}

/// Most connections that go on in one turn of the loop because their stall is over. Others wait for
/// the next, so that those who send at once all that they will ever ask do not keep the loop from
/// those who come.
const RESUMES_MAX: usize = 64;

// What the server, a benchmark or a simulator does with it.
impl Pipeline {
    /// A pipeline without connections.
    pub fn new(parts: PipelineParts, options: PipelineOptions) -> Pipeline {
        let PipelineParts {
            site,
            device,
            backends,
            hosts,
            disk,
            sessions,
            sign_ins,
            random,
            metrics,
            log,
            now,
        } = parts;
        let sessions = Sessions::new(sessions, sign_ins, random, metrics.clone());
        let contexts = options.contexts.max(1);
        let mut backends = Backends::new(backends);
        let files = SharedFiles::new(disk, options.clients.held_max);
        let (hosts, files_id) = files.among(hosts);
        let epoch = epoch_of(1, site, None, &mut backends, &hosts, &metrics);
        Pipeline {
            epoch,
            clients: Clients::new(options.clients, now),
            parser: Parser::default(),
            clients_by: options.clients_by,
            former: Former::new(options.formation),
            cohorts: Cohorts::new(contexts, options.formation.lanes_max, options.cohort_bytes),
            device: Device::new(device),
            backends,
            hosts,
            files: (files, files_id),
            responder: Responder::new(sessions, metrics.clone(), log),
            metrics,
            resumes: RESUMES_MAX,
            drain: None,
            nobody_comes: false,
            now,
            gauges: Gauges::new(),
        }
    }

    /// Serves this site from now on. What is under way ends as it began.
    pub fn reload(&mut self, site: Arc<Site>) {
        let number = self.epoch.number.wrapping_add(1);
        self.epoch = epoch_of(
            number,
            site,
            Some(&self.epoch),
            &mut self.backends,
            &self.hosts,
            &self.metrics,
        );
        self.gauges.touch();
    }

    /// Ends as said: it has [finished](rhythm_net::Handler::finished) when no client is left. To be
    /// called again where that is to be earlier.
    pub fn drain(&mut self, port: &mut dyn Port, now: Time, drain: Drain) {
        self.begin(port, now);
        self.drain = Some(drain);
        self.go_on_draining(port, now);
    }

    /// Does what is due of the drain.
    fn go_on_draining(&mut self, port: &mut dyn Port, now: Time) {
        if let Some(drain) = self.drain
            && drain.accept_until <= now
        {
            port.stop_accepting();
            self.clients.drain(drain.idle_until);
        }
    }

    /// What of the drain is due next, if anything.
    fn drain_at(&self) -> Option<Time> {
        let drain = self.drain?;
        match self.clients.is_draining() {
            true => Some(drain.until),
            false => Some(drain.accept_until),
        }
    }

    /// Tells when a turn of the driver ended, `idle` included: the answers given in it have taken
    /// until then.
    pub(crate) fn turn_ended(&mut self, now: Time) {
        self.responder.turn_ended(now);
    }

    /// What must hold whenever no event is being handled, for tests and the simulator.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.cohorts.check()?;
        self.clients.check()?;
        let [free, .., busy] = self.contexts();
        let used = self.cohorts.pool.len() - free;
        let requests = self.cohorts.requests();
        if requests > used * self.cohorts.pool.lanes_max() {
            return Err(format!("{requests} requests are more than the lanes"));
        }
        let (waiting, open) = (self.former.waiting(), self.clients.open());
        if waiting > 2 * open {
            return Err(format!("{waiting} connections wait, and {open} are open"));
        }
        let files = self.files_under_way();
        if files > 0 && open == 0 {
            return Err(format!("{files} files are sent to nobody"));
        }
        let unanswered = self.backends.unanswered();
        if unanswered > 0 && used == 0 {
            return Err(format!("{unanswered} queries are of no context"));
        }
        if unanswered == 0 && self.cohorts.waiting().next().is_some() {
            return Err("a cohort waits, and nothing is asked of a backend".to_owned());
        }
        if self.device.in_flight() > busy {
            return Err("the device has cohorts of contexts that are not busy".to_owned());
        }
        Ok(())
    }

    /// How many contexts are free, partially full, full and busy.
    pub fn contexts(&self) -> [usize; 4] {
        self.cohorts.pool.counts()
    }

    /// How many requests are lanes of cohorts.
    pub fn requests_under_way(&self) -> usize {
        self.cohorts.requests()
    }

    /// How many files are being sent that are read meanwhile.
    pub fn files_under_way(&self) -> usize {
        self.files.0.len()
    }

    /// How many clients' connections are open.
    pub fn connections(&self) -> usize {
        self.clients.open()
    }
}

/// The epoch of a site, after another or as the first.
fn epoch_of(
    number: u32,
    site: Arc<Site>,
    before: Option<&Epoch>,
    backends: &mut Backends,
    hosts: &Hosts,
    metrics: &WorkerMetrics,
) -> Arc<Epoch> {
    let backends = backends.of_site(&site, metrics);
    let find = |name: &str| {
        let host = hosts.find(name);
        if host.is_none() {
            tracing::error!(host = name, "no such host: its paths answer 404");
        }
        host
    };
    let routes = site.settings.hosts.iter();
    let hosts = routes.map(|route| find(&route.host)).collect();
    Arc::new(Epoch::new(number, site, before, backends, hosts, metrics))
}

// Intake: from bytes to lanes, or to the host path.
impl Pipeline {
    /// Takes all requests that a connection's input has.
    fn read(&mut self, port: &mut dyn Port, mut reading: Reading<'_>, now: Time) {
        let id = reading.connection();
        loop {
            let site = &*self.epoch.site;
            match self
                .clients
                .next(port, &mut reading, &site.request_limits, now)
            {
                Next::Request => match self.take(port, &reading, now) {
                    Ok(()) => reading.taken(),
                    // It is shown again later.
                    Err(stall) => {
                        let first = (self.clients).put_back(port, &mut reading, stall);
                        if first && stall == Stall::Context {
                            self.former.wait(id);
                            self.metrics.stalls.add(1);
                        }
                        break;
                    }
                },
                // The content is asked for only where it would be of use.
                Next::Expects => {
                    let Incoming { head, bytes, .. } = reading.request();
                    let found = self.parser.route(site, head, bytes);
                    match early_refusal(site, found, head, bytes) {
                        Some(status) => {
                            (self.responder).refuse(port, &mut self.clients, id, status, now)
                        }
                        None => self.clients.send_continue(port, id, now),
                    }
                    break;
                }
                // Pages take their content whole.
                Next::Head => self.take_early(port, &mut reading, now),
                Next::Piece => {
                    self.host_event(port, now, |hosts, event| hosts.piece(event, &mut reading));
                }
                Next::Refuse(status) => {
                    (self.responder).refuse(port, &mut self.clients, id, status, now);
                    break;
                }
                Next::Nothing => break,
            }
        }
        self.clients.read_done(port, reading, now);
    }

    /// Takes a request: to a cohort of its page, or on the host path.
    ///
    /// # Errors
    /// What it has to wait for.
    fn take(&mut self, port: &mut dyn Port, reading: &Reading<'_>, now: Time) -> Result<(), Stall> {
        let request = reading.request();
        let Incoming { head, bytes, .. } = request;
        let site = &*self.epoch.site;
        let found = self.parser.route(site, head, bytes);
        let answer = match dispatch(site, found, head, bytes) {
            Way::Lane(page, pattern) => match self.take_lane(reading, page, pattern, now)? {
                Ok(()) => return Ok(()),
                Err(answer) => answer,
            },
            Way::Host(route) => match self.epoch.hosts[route as usize] {
                Some(host) => {
                    self.responder.keep_line(request);
                    self.ask_host(port, now, |hosts, event| {
                        hosts.take(host, event, reading);
                        Some(reading.owed())
                    });
                    return Ok(());
                }
                None => SiteAnswer::Error(404),
            },
            Way::Site(answer) => answer,
        };
        if answer.is_streamed(&self.epoch.site)
            && !(self.clients).has_room(reading.connection(), STREAM_BYTES_EXPECTED)
        {
            return Err(Stall::Output);
        }
        let site = &self.epoch.site;
        (self.responder).answer_from_site(port, &mut self.clients, site, reading, answer, now);
        self.open_files(port, now);
        Ok(())
    }

    /// Adds a request to the cohort of its page as a lane, or tells what refuses it.
    ///
    /// # Errors
    /// What it has to wait for.
    fn take_lane(
        &mut self,
        reading: &Reading<'_>,
        page: u32,
        pattern: Option<PatternId>,
        now: Time,
    ) -> Result<Result<(), SiteAnswer>, Stall> {
        let request = reading.request();
        let Incoming {
            head,
            bytes,
            content,
        } = request;
        let (epoch, cohorts) = (&self.epoch, &mut self.cohorts);
        let sizes = epoch.sizes(page);
        if !(self.clients).has_room(reading.connection(), sizes.expected()) {
            return Err(Stall::Output);
        }
        // Up to the last field: other requests may follow in the bytes.
        let fields = head
            .headers()
            .last()
            .map_or(head.target(), |last| last.value);
        let info = epoch.page(page);
        if info.begins_session
            && let Err(too_many) = self.responder.may_try(reading.owed().peer.ip(), now)
        {
            return Ok(Err(SiteAnswer::TooMany(too_many)));
        }
        let room = info.copies_max * (fields.range().end + content.len()) + info.default_bytes;
        let context = match cohorts.open(epoch, page, room, now) {
            Ok(context) => context,
            Err(NotOpen::NoContext) => return Err(Stall::Context),
            Err(NotOpen::TooLarge) => return Ok(Err(SiteAnswer::Error(413))),
        };
        let (cohort, flight) = cohorts.pair_mut(context);
        let lane = (self.parser).lane(&epoch.site, page, pattern, request, cohort);
        let session = match lane {
            Ok(session) => session,
            Err(bad) => {
                cohorts.take_back_lane(context);
                return Ok(Err(SiteAnswer::BadParameter(bad)));
            }
        };
        let Owed { slot, shape, peer } = reading.owed();
        let client = self.clients_by.number(peer.ip(), slot.connection);
        (flight.requests).push(slot, shape, now, session, client);
        if self.responder.logs() {
            flight.requests.keep_line(peer.ip(), head, bytes);
        }
        if epoch.page(page).has_files {
            (flight.requests).keep_conditions(&Conditions::of(head, bytes));
        }
        epoch.metrics(page).requests.add(1);
        cohorts.filled(context);
        Ok(Ok(()))
    }
}

// Flight: from cohorts that form to answers.
impl Pipeline {
    /// Does what can be done without more input: what devices and backends have finished, and
    /// connections whose stall is over.
    fn work(&mut self, port: &mut dyn Port, now: Time) {
        loop {
            let mut any = false;
            self.device.poll();
            while let Some(id) = self.device.next_done(&mut self.cohorts) {
                self.stage_done(port, id, now);
                any = true;
            }
            any |= self.backends.poll(&mut self.cohorts, now);
            while let Some(id) = self.backends.next_complete() {
                self.go_on(port, id, now);
            }
            for _ in 0..self.device.ready() {
                if let Some(id) = self.device.next_ready() {
                    self.run_stage(port, id, now);
                }
            }
            if self.clients.has_news() {
                any |= self.host_event(port, now, Hosts::follow);
            }
            while self.resumes > 0
                && let Some(id) = self.clients.next_unstalled()
            {
                self.resumes -= 1;
                self.proceed(port, id, false, now);
                any = true;
            }
            while let Some(id) = self.cohorts.next_with_memory() {
                self.try_again(port, id, now);
                any = true;
            }
            if self.cohorts.take_freed() {
                any |= self.admit(port, now);
            }
            if !any {
                break;
            }
        }
    }

    /// Lets waiting connections try again, in their order, until one still finds no context.
    fn admit(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let mut any = false;
        for _ in 0..self.former.waiting() {
            let Some(id) = self.former.next_waiter() else {
                break;
            };
            let before = self.former.waiting();
            self.proceed(port, id, true, now);
            any = true;
            if self.former.waiting() > before {
                self.former.first_again();
                break;
            }
        }
        any
    }

    /// A connection's stall is over: takes up its input again.
    fn proceed(&mut self, port: &mut dyn Port, id: ConnectionId, waited: bool, now: Time) {
        if let Some(reading) = self.clients.proceed(id, waited) {
            self.read(port, reading, now);
        }
    }

    /// Launches the cohorts that are full, however much more there is to read: nothing is gained by
    /// waiting, and their columns are still in the caches.
    #[inline]
    fn launch_full(&mut self, port: &mut dyn Port, now: Time) {
        while self.device.ready() == 0
            && let Some(id) = self.former.next_full(&self.cohorts)
        {
            self.launch(port, id, LaunchReason::Full, now);
            self.work(port, now);
        }
    }

    /// Launches the cohorts that are to be launched now.
    fn launch_due(&mut self, port: &mut dyn Port, now: Time) {
        loop {
            self.work(port, now);
            if self.device.ready() > 0 {
                // It has no slot: until it has one, what is forming may as well grow.
                return;
            }
            // The device is free: it is first for those who have waited for it and for stragglers.
            if self.device.in_flight() == 0
                && self.backends.unanswered() > 0
                && self.check_waiting(port, now)
            {
                continue;
            }
            let outlook = Outlook {
                epoch: self.epoch.number,
                draining: self.clients.is_draining(),
                idle: self.device.in_flight() == 0,
            };
            match self.former.next_launch(&self.cohorts, outlook, now) {
                Some((id, reason)) => self.launch(port, id, reason, now),
                None => return,
            }
        }
    }

    /// Launches a cohort that was forming: looks up its sessions and runs its first stage.
    fn launch(&mut self, port: &mut dyn Port, id: ContextId, reason: LaunchReason, now: Time) {
        self.cohorts.pool.launch(id);
        let page = self.cohorts.pool.key(id).page;
        let (cohort, flight) = self.cohorts.pair_mut(id);
        flight.launched = now;
        let metrics = flight.epoch().metrics(page);
        metrics.launches[reason as usize].add(1);
        metrics.cohort_size.record(cohort.len() as u64, 1);
        (self.responder).look_up_sessions(cohort, flight, page, now);
        self.run_stage(port, id, now);
    }

    /// Gives a cohort to the device for its next stage.
    fn run_stage(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        let submitted = (self.device).submit(port, &mut self.cohorts, id, now);
        if submitted.is_err() {
            self.fail(port, id, now);
        }
    }

    /// A stage is done: answers the lanes that have their answer, and asks the backend for the
    /// others.
    fn stage_done(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        if !self.answer(port, id, now) {
            return;
        }
        match self.cohorts.next_go(id) {
            Go::Over => self.ask(port, id, now),
            Go::Again => self.run_stage(port, id, now),
            Go::Short => self.wait_for_memory(id),
        }
    }

    /// A cohort waits for memory that others have.
    fn wait_for_memory(&mut self, id: ContextId) {
        self.metrics.memory_waits.add(1);
        self.cohorts.wait_for_memory(id);
    }

    /// A cohort that waited for memory goes on where it was.
    fn try_again(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        match self.cohorts.pool.cohort(id).is_between_goes() {
            true => self.run_stage(port, id, now),
            false => self.ask(port, id, now),
        }
    }

    /// Asks the backend for the lanes of a cohort that are left.
    fn ask(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        if self.cohorts.is_scarce_for(id) {
            return self.wait_for_memory(id);
        }
        match self.backends.ask(port, &mut self.cohorts, id, now) {
            Asked::Answered => self.run_stage(port, id, now),
            Asked::Waiting => {}
            // The last stage finishes all lanes; one that is left is the executor's mistake.
            Asked::NoCall => self.fail(port, id, now),
        }
    }

    /// Gives up queries past their deadline, and lets cohorts go on without their stragglers.
    /// Whether any goes on.
    fn check_waiting(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let mut any = false;
        for id in 0..self.cohorts.pool.len() as ContextId {
            let idle = self.device.in_flight() == 0;
            if self.cohorts.waits(id)
                && (self.backends).look_after(&mut self.cohorts, id, idle, now)
            {
                self.go_on(port, id, now);
                any = true;
            }
        }
        any
    }

    /// A cohort waits for no more answers: its next stage.
    fn go_on(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        // Stragglers of several cohorts form one that may still be taking more.
        self.cohorts.launch(id);
        self.backends.wait_over(&mut self.cohorts, id, now);
        if self.answer(port, id, now) {
            self.run_stage(port, id, now);
        }
    }

    /// Answers the lanes of a cohort that are finished or failed, and frees its context if none is
    /// left. Whether any is.
    fn answer(&mut self, port: &mut dyn Port, id: ContextId, now: Time) -> bool {
        let (clients, cohorts) = (&mut self.clients, &mut self.cohorts);
        let left = (self.responder).answer_lanes(port, clients, cohorts, id, now);
        self.open_files(port, now);
        if !left {
            self.cohorts.free(id);
            self.gauges.touch();
        }
        left
    }

    /// Fails the lanes of a cohort that are left.
    fn fail(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        self.cohorts.fail_all(id, LaneError::DeviceFailed);
        let left = self.answer(port, id, now);
        assert!(!left, "a lane that has failed is answered");
    }

    /// Sets the gauges, and does what else is due as often.
    fn set_gauges(&mut self, port: &mut dyn Port, now: Time) {
        if self.gauges.is_due(now) {
            (self.gauges).set(&self.metrics, &self.clients, &self.cohorts, &self.epoch);
            self.backends.set_gauges(&self.epoch);
            (self.backends).retire(port, &self.epoch, &self.cohorts);
            let [pages, backends] = [self.epoch.pages.len(), self.epoch.backends.len()];
            if !self.metrics.retire(pages, backends) {
                self.gauges.touch();
            }
            self.responder.sweep(now);
            if self.cohorts.forget_unused(now) {
                self.gauges.touch();
            }
        }
    }

    /// The start of every event: what time it is.
    fn begin(&mut self, port: &mut dyn Port, now: Time) {
        self.now = now;
        (self.responder).begin(port.wall_clock().unix_seconds, now);
    }
}
