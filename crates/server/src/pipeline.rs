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
//!   Process    device, backend, device, ... |                              process.rs, flight/
//!      v                                    v
//!   Responder  heads, stitching, order                                     answer/
//!      |
//!      v  bytes
//!  connections
//! ```
//!
//! It is a [`Handler`]: events and the time come in (events.rs), reading.rs and process.rs do what
//! they set going, effects go out through a [`Port`]. It does no I/O and reads no clock, so that a
//! simulator can run it with virtual sockets and virtual time. One thread owns it; it shares with
//! others of its kind only the sites, and each one's session array.
//!
//! Its parts know nothing of it and do not call each other: each takes what it works on and gives
//! what came of it, which is handed on here.
//!
//! Nothing in it grows with the load: lanes are bounded by the cohort pool, requests by the lanes,
//! input by the stalls of its connections, which reach back to the sockets.
//!
//! [`Handler`]: rhythm_net::Handler

mod ending;
mod events;
mod gauges;
mod host_path;
mod hosts;
mod lanes;
mod parts;
mod process;
mod reading;
mod turn;

pub use parts::PipelineParts;

use crate::answer::responder::Responder;
use crate::answer::sessions::{Sessions, SharedRandom};
use crate::drain::Drain;
use crate::flight::backends::Backends;
use crate::flight::cohorts::Cohorts;
use crate::flight::device::Device;
use crate::flight::former::Former;
use crate::flight::heavy::Heavy;
use crate::limits::options::PipelineOptions;
use crate::observe::metrics::{SiteMetrics, WorkerMetrics};
use crate::site::epoch::Epoch;
use crate::site::epochs::Epochs;
use crate::site::lengths::Lengths;
use crate::site::names::Relocated;
use crate::site::{HostRoute, Site, Sites};
use ending::Ending;
use gauges::Gauges;
use host_path::HostPath;
use lanes::Intake;
use rhythm_http::Clients;
use rhythm_net::{Port, Time};
use std::sync::Arc;
use turn::Turn;

/// The state machine. See the module's text.
pub struct Pipeline {
    /// What is served now. Cohorts under way keep the epochs they began in.
    epochs: Epochs,
    /// Bytes in and out, in order, of all connections.
    clients: Clients,
    /// Requests into lanes.
    intake: Intake,
    /// Lanes into cohorts.
    former: Former,
    /// Cohorts that take long, after the others.
    heavy: Heavy,
    /// The cohorts, wherever they are.
    cohorts: Cohorts,
    /// Stages of cohorts.
    device: Device,
    /// What stages ask.
    backends: Backends,
    /// What answers without cohorts, now or later.
    host_path: HostPath,
    /// Finished lanes into bytes.
    responder: Responder,
    /// Somebody asks where requests' time went; and of all of them, not of those alone that are
    /// recorded.
    watches: bool,
    watches_all: bool,
    metrics: Arc<WorkerMetrics>,
    turn: Turn,
    ending: Ending,
    gauges: Gauges,
}

// What the server, a benchmark or a simulator does with it.
impl Pipeline {
    /// A pipeline without connections.
    pub fn new(parts: PipelineParts, options: PipelineOptions) -> Pipeline {
        let PipelineParts {
            sites,
            visitors,
            device,
            backends,
            hosts,
            disk,
            random,
            metrics,
            log,
            spans,
            now,
        } = parts;
        assert_eq!(sites.all().len(), visitors.len(), "each site has visitors");
        let random = SharedRandom::new(random);
        let lengths = Lengths::new(random.next());
        let first_token = random.next() as u32;
        let sessions: Vec<Sessions> = (visitors.iter().enumerate())
            .map(|(index, visitors)| Sessions::new(visitors, random.clone(), metrics.site(index)))
            .collect();
        let sealers = sessions.iter().map(|sessions| sessions.sealer().clone());
        let contexts = options.contexts.max(1);
        let watches_all = options.watch.slow_request.is_some();
        let watches = watches_all || options.watch.traces;
        let mut backends = Backends::new(backends);
        let host_path = HostPath::new(hosts, disk, options.clients.held_max, options.clients_by);
        let has_challenges = host_path.challenges_id.is_some();
        let intake = Intake::new(options.clients_by, sealers, first_token, has_challenges);
        let epochs = Epochs::new(sites.clone(), |index, number| {
            let (site, metrics) = (sites.all()[index].clone(), metrics.site(index));
            epoch_of(
                (number, index),
                site,
                None,
                &mut backends,
                &host_path,
                &metrics,
            )
        });
        Pipeline {
            epochs,
            clients: Clients::new(options.clients, now),
            intake,
            former: Former::new(options.formation),
            heavy: Heavy::default(),
            cohorts: Cohorts::new(
                contexts,
                options.waiting,
                options.formation.lanes_max,
                options.cohort_bytes,
            ),
            device: Device::new(device),
            backends,
            host_path,
            responder: Responder::new(
                (sessions, random),
                lengths,
                metrics.clone(),
                (log, spans),
                options.watch,
            ),
            watches,
            watches_all,
            metrics,
            turn: Turn::new(now),
            ending: Ending::default(),
            gauges: Gauges::new(),
        }
    }

    /// Ends as said: it has [finished](rhythm_net::Handler::finished) when no client is left. To be
    /// called again where that is to be earlier.
    pub fn drain(&mut self, port: &mut dyn Port, now: Time, drain: Drain) {
        self.begin(port, now);
        self.gauges.touch();
        (self.ending).begin(port, &mut self.clients, drain, now);
    }

    /// Serves these sites from now on, as many as before and in their order. What is under way ends
    /// as it began.
    pub fn reload(&mut self, sites: Arc<Sites>) {
        let (backends, hosts, metrics) = (&mut self.backends, &self.host_path, &self.metrics);
        self.epochs.replace(sites.clone(), |before, number| {
            let index = before.index;
            let (site, metrics) = (sites.all()[index].clone(), metrics.site(index));
            epoch_of(
                (number, index),
                site,
                Some(before),
                backends,
                hosts,
                &metrics,
            )
        });
        self.gauges.touch();
    }

    /// Backends are elsewhere from now on.
    pub(crate) fn relocate(&mut self, relocated: &[Relocated]) {
        self.backends.relocate(relocated);
        self.gauges.touch();
    }

    /// Sets the gauges, and does what else is due as often.
    fn set_gauges(&mut self, port: &mut dyn Port, now: Time) {
        if self.gauges.is_due(now) {
            (self.gauges).set(&self.metrics, &self.clients, &self.cohorts, &self.epochs);
            self.backends.set_gauges(&self.epochs);
            self.host_path.proxies.set_gauges();
            (self.backends).retire(port, &self.epochs, &self.cohorts);
            for epoch in self.epochs.all() {
                let [pages, backends] = [epoch.pages.len(), epoch.backends.len()];
                if !self.metrics.site(epoch.index).retire(pages, backends) {
                    self.gauges.touch();
                }
            }
            let has_more = self.responder.sweep(now);
            if self.cohorts.forget_unused(now) || has_more {
                self.gauges.touch();
            }
        }
    }

    /// The start of every event: what time it is.
    fn begin(&mut self, port: &mut dyn Port, now: Time) {
        self.turn.event(now);
        let unix_seconds = port.wall_clock().unix_seconds;
        self.responder.begin(unix_seconds);
    }

    /// What must hold whenever no event is being handled, for tests and the simulator.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.cohorts.check()?;
        self.heavy.check(&self.cohorts)?;
        self.clients.check()?;
        let [free, .., busy] = self.contexts();
        let used = self.cohorts.pool.len() - free;
        let requests = self.cohorts.requests();
        if requests > used * self.cohorts.waiting_lanes_max() {
            return Err(format!("{requests} requests are more than the lanes"));
        }
        let (waiting, open) = (self.former.waiting(), self.clients.open());
        if waiting > 2 * open {
            return Err(format!("{waiting} connections wait, and {open} are open"));
        }
        let waiting = self.clients.waiting();
        if waiting > 2 * open {
            return Err(format!("{waiting} connections stand in a queue of {open}"));
        }
        let files = self.files_under_way();
        if files > 0 && open == 0 {
            return Err(format!("{files} files are sent to nobody"));
        }
        let proxied = self.host_path.proxies.len();
        if proxied > 0 && open == 0 {
            return Err(format!("{proxied} requests are proxied for nobody"));
        }
        let unanswered = self.backends.unanswered();
        if unanswered > 0 && used == 0 {
            return Err(format!("{unanswered} queries are of no context"));
        }
        if unanswered == 0 && !self.cohorts.waiting().is_empty() {
            return Err("a cohort waits, and nothing is asked of a backend".to_owned());
        }
        let shown = [&self.metrics.connections, &self.metrics.held_bytes].map(|it| it.get());
        let held = [open, self.clients.held()].map(|it| it as u64);
        if self.gauges.wake_at().is_none() && shown != held {
            return Err(format!(
                "gauges show {shown:?} for good, and it is {held:?}"
            ));
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
        self.host_path.files.len()
    }

    /// How many clients' connections are open.
    pub fn connections(&self) -> usize {
        self.clients.open()
    }
}

/// The epoch of a site, after another or as the first.
fn epoch_of(
    (number, index): (u32, usize),
    site: Arc<Site>,
    before: Option<&Epoch>,
    backends: &mut Backends,
    host_path: &HostPath,
    metrics: &SiteMetrics,
) -> Epoch {
    let keys = backends.of_site(index, &site, metrics);
    let tells_backends = backends.any_takes_fields(&keys);
    let host = |route: &HostRoute| host_path.hosts.find(&route.host);
    let hosts = (site.settings.hosts.iter())
        .map(|route| host(route).expect("a site's routes are to hosts that there are"))
        .collect();
    let proxies = host_path.proxies.of_site(index, &site, metrics);
    let hosts = (hosts, proxies);
    let backends = (keys, tells_backends);
    Epoch::new(number, index, site, before, backends, hosts, metrics)
}
