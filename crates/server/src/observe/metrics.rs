//! Metrics: counted where things happen, read where they are scraped.
//!
//! Each worker has figures of its own (`rhythm_observe`), and a scrape adds up those of all. They
//! outlive a reload: pages are known by their name, for as long as they are served.

mod last_failure;
mod panels;
mod scrape;

pub use last_failure::LastFailure;
pub(crate) use panels::Bounds;

use crate::observe::access_log::LogState;
use crate::trace::ExportState;
use rhythm_engine::cohort::LaneError;
use rhythm_observe::dashboard::Shows;
use rhythm_observe::{Count, FineTimeHistogram, SizeHistogram, TimeHistogram, TurnHistogram};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A worker's figures for a page.
#[derive(Debug, Default)]
pub struct PageMetrics {
    /// Requests that became lanes.
    pub requests: Count,
    /// Answers by class of status: `[1xx, 2xx, 3xx, 4xx, 5xx]`.
    pub answers: [Count; 5],
    /// Requests that were passed on to a proxy route, and are none of the answers.
    pub passed_on: Count,
    /// From arrival to the launch of the first stage.
    pub queue_wait: TimeHistogram,
    /// From launch to answer.
    pub service_time: TimeHistogram,
    /// From a request's first byte to the last byte of its answer that its client's socket took.
    pub whole_time: FineTimeHistogram,
    /// Lanes of the cohorts launched.
    pub cohort_size: SizeHistogram,
    /// Launches by [`LaunchReason`](rhythm_cohort::LaunchReason).
    pub launches: [Count; 4],
    /// Lanes that left their cohort because a backend kept them waiting.
    pub stragglers: Count,
    /// Lanes failed, by [`LaneError::index`].
    pub lane_errors: [Count; LaneError::ALL.len()],
    /// Lanes in formation at this moment.
    pub queued: Count,
    /// How the last lane failed that did.
    pub last_failure: LastFailure,
}

impl PageMetrics {
    /// Counts an answer.
    #[inline]
    pub fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.answers[class].add(1);
    }
}

/// A worker's figures for a backend.
#[derive(Debug, Default)]
pub struct BackendMetrics {
    /// Requests handed over.
    pub requests: Count,
    /// Requests that got no answer of use.
    pub failures: Count,
    /// Requests for which another of their cohort, which asked the same, was sent.
    pub shared: Count,
    /// Requests that were asked for with others, as one.
    pub merged: Count,
    /// Requests sent again.
    pub retries: Count,
    /// Requests not answered yet, now.
    pub under_way: Count,
    /// Those of them that wait for a place on a connection.
    pub waiting: Count,
    /// Connections that stand now.
    pub connections: Count,
    /// 1 while the circuit is open, and no trial has gone well since.
    pub circuit_open: Count,
    /// 1 while that is so, and some calls are answered all the same.
    pub answers_some: Count,
    /// From a batch's handing over to each answer.
    pub latency: TimeHistogram,
}

/// A worker's figures for a server that requests of a route are proxied to.
#[derive(Debug, Default)]
pub struct ProxyMetrics {
    /// Requests sent to it, those that were sent again included.
    pub requests: Count,
    /// Requests that failed: that were answered in its place, or whose answers were cut off.
    pub failures: Count,
    /// Requests that were sent again, after a connection to it was lost.
    pub retries: Count,
    /// Requests under way on it, now.
    pub under_way: Count,
    /// Connections to it that stand or are being opened, now.
    pub connections: Count,
    /// From a request's arrival to its answer's end.
    pub latency: TimeHistogram,
}

/// A worker's figures for a site.
#[derive(Debug, Default)]
pub struct SiteMetrics {
    /// Sessions begun.
    pub sign_ins: Count,
    /// Answers of pages whose sessions are sign-ins, that began none.
    pub sign_ins_failed: Count,
    /// Sign-ins answered 429.
    pub sign_ins_refused: Count,
    pages: Mutex<BTreeMap<String, Arc<PageMetrics>>>,
    backends: Mutex<BTreeMap<String, Arc<BackendMetrics>>>,
    /// By route and server.
    proxies: Mutex<BTreeMap<(String, String), Arc<ProxyMetrics>>>,
}

impl SiteMetrics {
    /// The figures of a page.
    pub fn page(&self, name: &str) -> Arc<PageMetrics> {
        named(&self.pages, name)
    }

    /// The figures of a backend.
    pub fn backend(&self, name: &str) -> Arc<BackendMetrics> {
        named(&self.backends, name)
    }

    /// The figures of a server that requests of a route are proxied to.
    pub fn proxy(&self, route: &str, server: &str) -> Arc<ProxyMetrics> {
        let mut map = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (route.to_owned(), server.to_owned());
        map.entry(key).or_default().clone()
    }

    /// Forgets pages and backends that nobody counts for any more: a reload has taken them away,
    /// and what was under way is answered. Whether no more than so many are left: whoever reads the
    /// figures holds them for a moment, and those are forgotten the next time.
    pub(crate) fn retire(&self, pages: usize, backends: usize) -> bool {
        retain_counted(&self.proxies);
        let left = (retain_counted(&self.pages), retain_counted(&self.backends));
        left.0 <= pages && left.1 <= backends
    }
}

/// A worker's own figures.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Connections open now.
    pub connections: Count,
    /// Connections accepted.
    pub accepted: Count,
    /// Silent connections closed because others needed their places.
    pub yielded: Count,
    /// Connections that waited for a free context.
    pub stalls: Count,
    /// Cohorts that waited for memory that others had.
    pub memory_waits: Count,
    /// Passes of cohorts that took long, behind which others had their turn.
    pub long_passes: Count,
    /// Bytes that cohorts have now of what is common to them.
    pub lent_bytes: Count,
    /// Bytes that connections hold now.
    pub held_bytes: Count,
    /// Connections dropped because all of a worker's held too much.
    pub gave_way: Count,
    /// Connections dropped because their client took an answer, or sent, too slowly.
    pub too_slow: Count,
    /// Requests that took so long that the log is to tell of them.
    pub slow_requests: Count,
    /// Answers that no page gave: static files and errors, by class of status.
    pub host_answers: [Count; 5],
    /// Contexts now: free, partially full, full, busy.
    pub contexts: [Count; 4],
    /// How long the loop's turns took.
    pub turns: TurnHistogram,
    /// Nanoseconds the loop has worked.
    pub busy_ns: Count,
    /// Nanoseconds the loop has run, waiting included.
    pub total_ns: Count,
    /// Times the worker was started again after a panic.
    pub restarts: Count,
    /// Clients that speak TLS.
    pub tls: Arc<rhythm_net::tls::Figures>,
    /// And HTTP/2.
    pub http2: Arc<rhythm_http2::Figures>,
    /// In the sites' order.
    sites: Mutex<Vec<Arc<SiteMetrics>>>,
}

impl WorkerMetrics {
    /// The figures for a site, by its index.
    pub fn site(&self, index: usize) -> Arc<SiteMetrics> {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        while sites.len() <= index {
            sites.push(Arc::default());
        }
        sites[index].clone()
    }

    /// The figures of a page of the first site.
    pub fn page(&self, name: &str) -> Arc<PageMetrics> {
        self.site(0).page(name)
    }

    /// The figures of a backend of the first site.
    pub fn backend(&self, name: &str) -> Arc<BackendMetrics> {
        self.site(0).backend(name)
    }

    /// Counts an answer of the host path.
    pub(crate) fn host_answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.host_answers[class].add(1);
    }
}

fn named<T: Default>(map: &Mutex<BTreeMap<String, Arc<T>>>, name: &str) -> Arc<T> {
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    map.entry(name.to_owned()).or_default().clone()
}

/// Keeps what is held elsewhere, and says how many that are. Who asks for more meanwhile waits at
/// the lock.
fn retain_counted<K: Ord, T>(map: &Mutex<BTreeMap<K, Arc<T>>>) -> usize {
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    map.retain(|_, figures| Arc::strong_count(figures) > 1);
    map.len()
}

/// What all workers have counted of a page since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageTotals {
    /// Requests that became lanes.
    pub requests: u64,
    /// Answers.
    pub answers: u64,
    /// Of these, those that say that the server failed (5xx).
    pub failed: u64,
    /// Nanoseconds from arrivals to answers, of all answers together.
    pub took_ns: u64,
}

/// The figures of a server.
#[derive(Debug)]
pub struct Metrics {
    workers: Vec<Arc<WorkerMetrics>>,
    /// How the access log fares.
    pub log: Arc<LogState>,
    /// How exporting spans fares, if they are.
    pub(crate) traces: Option<Arc<ExportState>>,
    /// What is counted of devices on other machines, if there are any.
    pub(crate) device: Option<Arc<dyn DeviceFigures>>,
    /// For each site what it is called, where there are several, and its sessions.
    sites: Vec<(Option<String>, Box<dyn SessionGauge>)>,
    /// Until when the certificate of each is good, in seconds since 1970; 0: it has none.
    certificates: Box<[Count]>,
    /// What the dashboard shows, too, if anything.
    beside: OnceLock<Box<dyn Shows>>,
}

/// Figures of devices on other machines, by whoever has the ways to them.
pub trait DeviceFigures: Send + Sync + fmt::Debug {
    /// Writes them, beside those of the server.
    ///
    /// # Errors
    /// As [`Writer`](rhythm_observe::Writer)'s.
    fn tell(&self, to: &mut rhythm_observe::Writer<'_>) -> fmt::Result;
}

impl Metrics {
    /// What there is of each page: of which site it is, where there are several, its name, and what
    /// all workers counted. It is read, so that it costs requests nothing.
    pub fn each_page(&self, mut each: impl FnMut(Option<&str>, &str, PageTotals)) {
        for (index, (site, _)) in self.sites.iter().enumerate() {
            let mut pages = BTreeMap::<String, PageTotals>::new();
            for worker in &self.workers {
                let of_site = worker.site(index);
                let of_worker = of_site.pages.lock().unwrap_or_else(PoisonError::into_inner);
                for (name, page) in of_worker.iter() {
                    match pages.get_mut(name) {
                        Some(totals) => totals.add(page),
                        None => pages.entry(name.clone()).or_default().add(page),
                    }
                }
            }
            for (name, totals) in &pages {
                each(site.as_deref(), name, *totals);
            }
        }
    }
}

impl PageTotals {
    fn add(&mut self, page: &PageMetrics) {
        self.requests += page.requests.get();
        self.answers += page.answers.iter().map(Count::get).sum::<u64>();
        self.failed += page.answers[4].get();
        self.took_ns += page.queue_wait.sum() + page.service_time.sum();
    }
}

/// What tells how full the session array is.
pub trait SessionGauge: Send + Sync + fmt::Debug {
    /// Sessions in use, and at most.
    fn sessions(&self) -> (usize, usize);

    /// Sessions that ended because their user had too many.
    fn replaced(&self) -> u64 {
        0
    }
}

impl SessionGauge for () {
    fn sessions(&self) -> (usize, usize) {
        (0, 0)
    }
}

impl Metrics {
    /// Figures for this many workers that serve one site.
    pub fn new(workers: usize, log: Arc<LogState>, sessions: Box<dyn SessionGauge>) -> Metrics {
        Metrics::of_sites(workers, log, vec![(None, sessions)])
    }

    /// Figures for this many workers that serve several sites: what each is called, and its
    /// sessions.
    pub(crate) fn of_sites(
        workers: usize,
        log: Arc<LogState>,
        sites: Vec<(Option<String>, Box<dyn SessionGauge>)>,
    ) -> Metrics {
        Metrics {
            workers: (0..workers).map(|_| Arc::default()).collect(),
            log,
            traces: None,
            device: None,
            certificates: sites.iter().map(|_| Count::default()).collect(),
            sites,
            beside: OnceLock::new(),
        }
    }

    /// Has the dashboard show this, too: one that is said before has the place.
    pub fn show_beside(&self, beside: Box<dyn Shows>) {
        // What was said before stays, as it says.
        let _ = self.beside.set(beside);
    }

    /// Whether a backend of this name, of a site by its index, fails as a whole, for any worker.
    pub(crate) fn is_failing(&self, site: usize, backend: &str) -> bool {
        self.workers.iter().any(|worker| {
            let site = worker.site(site);
            let backends = site.backends.lock();
            let backends = backends.unwrap_or_else(PoisonError::into_inner);
            (backends.get(backend)).is_some_and(|figures| figures.circuit_open.get() > 0)
        })
    }

    /// Until when a site's certificate is good, in seconds since 1970; 0: it has none.
    pub(crate) fn certificate_until(&self, site: usize, until: u64) {
        self.certificates[site].set(until);
    }

    /// Whether anything was answered yet.
    pub(crate) fn has_answered(&self) -> bool {
        let mut any = (self.workers.iter())
            .any(|worker| worker.host_answers.iter().any(|count| count.get() > 0));
        self.each_page(|_, _, totals| any |= totals.answers > 0);
        any
    }

    /// A worker's figures.
    pub fn worker(&self, index: usize) -> Arc<WorkerMetrics> {
        self.workers[index].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_are_read_just_now_are_forgotten_the_next_time() {
        let metrics = SiteMetrics::default();
        let (kept, read) = (metrics.page("kept"), metrics.page("gone"));
        assert!(!metrics.retire(1, 0));
        drop(read);
        assert!(metrics.retire(1, 0));
        assert!(Arc::ptr_eq(&kept, &metrics.page("kept")));
    }
}
