//! Metrics: counted where things happen, read where they are scraped.
//!
//! Each worker has figures of its own, and only it writes them, so that counting is a load and a store without a
//! locked instruction or a shared cache line. A scrape adds up the figures of all workers. They outlive a reload:
//! pages are known by their name.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use rhythm_engine::cohort::{LaneError, LaunchReason};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A number that only goes up, or, for gauges, is set. One thread writes it.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it. Not for two threads at once: one of them would be lost.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(more),
            Ordering::Relaxed,
        );
    }

    /// Sets it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by power of two: bucket i holds values up to `1 << (SHIFT + i)`, the last all others.
#[derive(Debug)]
pub struct Histogram<const SHIFT: u32, const BUCKETS: usize> {
    buckets: [Count; BUCKETS],
    sum: Count,
}

/// Of times in nanoseconds: 1 us to 67 s.
pub type TimeHistogram = Histogram<10, 28>;
/// Of cohort sizes: 1 to 16384.
pub type SizeHistogram = Histogram<0, 16>;

impl<const SHIFT: u32, const BUCKETS: usize> Default for Histogram<SHIFT, BUCKETS> {
    fn default() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| Count::default()),
            sum: Count::default(),
        }
    }
}

impl<const SHIFT: u32, const BUCKETS: usize> Histogram<SHIFT, BUCKETS> {
    /// Counts a value, `times` times.
    #[inline]
    pub fn record(&self, value: u64, times: u64) {
        let above = 64 - value.saturating_sub(1).leading_zeros();
        let bucket = (above.saturating_sub(SHIFT) as usize).min(BUCKETS - 1);
        self.buckets[bucket].add(times);
        self.sum.add(value.saturating_mul(times));
    }

    /// The counts and the sum, the buckets' bounds multiplied by `scale`.
    fn snapshot(&self, scale: f64, into: &mut HistogramSum) {
        into.sum += self.sum.get() as f64 * scale;
        into.buckets.resize(BUCKETS, (0.0, 0));
        for (index, (count, to)) in self.buckets.iter().zip(&mut into.buckets).enumerate() {
            to.0 = if index + 1 == BUCKETS {
                f64::INFINITY
            } else {
                (1u64 << (SHIFT as usize + index)) as f64 * scale
            };
            to.1 += count.get();
        }
    }
}

#[derive(Default)]
struct HistogramSum {
    sum: f64,
    buckets: Vec<(f64, u64)>,
}

/// How many kinds of [`LaneError`] there are, and one for 0.
const LANE_ERRORS: usize = LaneError::DeviceFailed as usize + 1;

/// Names of [`LaneError`]s in metrics, by their numbers.
const LANE_ERROR_NAMES: [&str; LANE_ERRORS] = [
    "none",
    "division_by_zero",
    "overflow",
    "out_of_range",
    "not_a_number",
    "too_large",
    "too_many_turns",
    "bad_answer",
    "backend_failed",
    "backend_refused",
    "backend_timeout",
    "sessions_full",
    "device_failed",
];

/// A worker's figures for a page.
#[derive(Debug, Default)]
pub struct PageMetrics {
    /// Requests that became lanes.
    pub requests: Count,
    /// Answers by class of status: `[1xx, 2xx, 3xx, 4xx, 5xx]`.
    pub answers: [Count; 5],
    /// From arrival to the launch of the first stage.
    pub queue_wait: TimeHistogram,
    /// From launch to answer.
    pub service_time: TimeHistogram,
    /// Lanes of the cohorts launched.
    pub cohort_size: SizeHistogram,
    /// Launches by [`LaunchReason`].
    pub launches: [Count; 4],
    /// Lanes that left their cohort because a backend kept them waiting.
    pub stragglers: Count,
    /// Lanes failed, by [`LaneError`].
    pub lane_errors: [Count; LANE_ERRORS],
    /// Lanes in formation at this moment.
    pub queued: Count,
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
    /// Requests sent again.
    pub retries: Count,
    /// 1 while the circuit is open.
    pub circuit_open: Count,
    /// From a batch's handing over to each answer.
    pub latency: TimeHistogram,
}

/// A worker's own figures.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Connections open now.
    pub connections: Count,
    /// Connections accepted.
    pub accepted: Count,
    /// Connections that waited for a free context.
    pub stalls: Count,
    /// Answers that no page gave: static files and errors, by class of status.
    pub host_answers: [Count; 5],
    /// Contexts now: free, partially full, full, busy.
    pub contexts: [Count; 4],
    /// Nanoseconds the loop has worked.
    pub busy_ns: Count,
    /// Nanoseconds the loop has run, waiting included.
    pub total_ns: Count,
    /// Times the worker was started again after a panic.
    pub restarts: Count,
    pages: Mutex<BTreeMap<String, Arc<PageMetrics>>>,
    backends: Mutex<BTreeMap<String, Arc<BackendMetrics>>>,
}

impl WorkerMetrics {
    /// The figures of a page.
    pub fn page(&self, name: &str) -> Arc<PageMetrics> {
        named(&self.pages, name)
    }

    /// The figures of a backend.
    pub fn backend(&self, name: &str) -> Arc<BackendMetrics> {
        named(&self.backends, name)
    }

    /// Counts an answer of the host path.
    pub fn host_answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.host_answers[class].add(1);
    }
}

fn named<T: Default>(map: &Mutex<BTreeMap<String, Arc<T>>>, name: &str) -> Arc<T> {
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    map.entry(name.to_owned()).or_default().clone()
}

/// The figures of a server.
#[derive(Debug)]
pub struct Metrics {
    workers: Vec<Arc<WorkerMetrics>>,
    /// Access log lines dropped.
    pub log_lines_dropped: Arc<AtomicU64>,
    /// Sessions that exist, and how many can.
    pub sessions: Box<dyn SessionGauge>,
}

/// What tells how full the session array is.
pub trait SessionGauge: Send + Sync + fmt::Debug {
    /// Sessions in use, and at most.
    fn sessions(&self) -> (usize, usize);
}

impl SessionGauge for () {
    fn sessions(&self) -> (usize, usize) {
        (0, 0)
    }
}

impl Metrics {
    /// Figures for this many workers.
    pub fn new(
        workers: usize,
        log_lines_dropped: Arc<AtomicU64>,
        sessions: Box<dyn SessionGauge>,
    ) -> Metrics {
        Metrics {
            workers: (0..workers).map(|_| Arc::default()).collect(),
            log_lines_dropped,
            sessions,
        }
    }

    /// A worker's figures.
    pub fn worker(&self, index: usize) -> Arc<WorkerMetrics> {
        self.workers[index].clone()
    }

    /// All of it in the Prometheus text format (OpenMetrics 1.0).
    ///
    /// # Errors
    /// None that is known: writing to a text cannot fail.
    pub fn encode(self: &Arc<Metrics>) -> Result<String, fmt::Error> {
        let mut registry = prometheus_client::registry::Registry::with_prefix("rhythm");
        registry.register_collector(Box::new(Scrape(self.clone())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// The figures of the workers for one page, or one backend, by its name.
type ByName<T> = BTreeMap<String, Vec<Arc<T>>>;

/// A value and its labels.
type Sample<T> = (Vec<(&'static str, String)>, T);

const NANOSECOND: f64 = 1e-9;
/// The classes of status, as labels.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The states of contexts, as labels.
const STATES: [&str; 4] = ["free", "partially_full", "full", "busy"];

fn gather<T>(
    workers: &[Arc<WorkerMetrics>],
    map: impl Fn(&WorkerMetrics) -> &Mutex<BTreeMap<String, Arc<T>>>,
) -> ByName<T> {
    let mut all = ByName::<T>::new();
    for worker in workers {
        let of_worker = map(worker).lock().unwrap_or_else(PoisonError::into_inner);
        for (name, metrics) in of_worker.iter() {
            all.entry(name.clone()).or_default().push(metrics.clone());
        }
    }
    all
}

/// One figure of each name, added up over the workers.
fn sums<T>(
    all: &ByName<T>,
    label: &'static str,
    figure: impl Fn(&T) -> &Count,
) -> Vec<Sample<u64>> {
    all.iter()
        .map(|(name, metrics)| {
            let sum = metrics.iter().map(|metrics| figure(metrics).get()).sum();
            (vec![(label, name.clone())], sum)
        })
        .collect()
}

/// [`sums`] of several figures, told apart by one more label.
fn sums_by<T, const N: usize>(
    all: &ByName<T>,
    label: &'static str,
    (by, names): (&'static str, [&'static str; N]),
    figures: impl Fn(&T) -> &[Count; N],
) -> Vec<Sample<u64>> {
    let mut samples = Vec::new();
    for (index, value) in names.into_iter().enumerate() {
        for (mut labels, sum) in sums(all, label, |metrics| &figures(metrics)[index]) {
            labels.push((by, value.to_owned()));
            samples.push((labels, sum));
        }
    }
    samples
}

fn histogram_sums<T, const SHIFT: u32, const BUCKETS: usize>(
    all: &ByName<T>,
    label: &'static str,
    scale: f64,
    figure: impl Fn(&T) -> &Histogram<SHIFT, BUCKETS>,
) -> Vec<Sample<HistogramSum>> {
    all.iter()
        .map(|(name, metrics)| {
            let mut sum = HistogramSum::default();
            for metrics in metrics {
                figure(metrics).snapshot(scale, &mut sum);
            }
            (vec![(label, name.clone())], sum)
        })
        .collect()
}

/// Writes families of metrics.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn counters(&mut self, name: &str, help: &str, samples: Vec<Sample<u64>>) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            (family.encode_family(&labels)?).encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges(&mut self, name: &str, help: &str, samples: Vec<Sample<f64>>) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn histograms(
        &mut self,
        name: &str,
        help: &str,
        samples: Vec<Sample<HistogramSum>>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, sum) in samples {
            let count = sum.buckets.iter().map(|(_, count)| count).sum();
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum.sum, count, &sum.buckets, None)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Scrape(Arc<Metrics>);

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Writer(encoder);
        let workers = &self.0.workers;
        self.pages(&mut to)?;
        self.backends(&mut to)?;
        let by_worker: ByName<WorkerMetrics> = (workers.iter().enumerate())
            .map(|(index, worker)| (index.to_string(), vec![worker.clone()]))
            .collect();
        let w = &by_worker;
        let gauges = |samples: Vec<Sample<u64>>, scale: f64| -> Vec<Sample<f64>> {
            (samples.into_iter())
                .map(|(labels, value)| (labels, value as f64 * scale))
                .collect()
        };
        let open = gauges(sums(w, "worker", |m| &m.connections), 1.0);
        to.gauges("connections", "Connections open", open)?;
        let accepted = sums(w, "worker", |m| &m.accepted);
        to.counters("connections_accepted", "Connections accepted", accepted)?;
        let stalls = sums(w, "worker", |m| &m.stalls);
        to.counters(
            "stalls",
            "Requests that waited for a free cohort context",
            stalls,
        )?;
        let host = sums_by(w, "worker", ("class", CLASSES), |m| &m.host_answers);
        to.counters(
            "host_answers",
            "Answers given without a cohort: files and errors",
            host,
        )?;
        let contexts = sums_by(w, "worker", ("state", STATES), |m| &m.contexts);
        to.gauges(
            "contexts",
            "Cohort contexts by state",
            gauges(contexts, 1.0),
        )?;
        let busy = gauges(sums(w, "worker", |m| &m.busy_ns), NANOSECOND);
        to.gauges("loop_busy_seconds", "Time the event loop has worked", busy)?;
        let total = gauges(sums(w, "worker", |m| &m.total_ns), NANOSECOND);
        to.gauges("loop_seconds", "Time the event loop has run", total)?;
        let utilisation = (workers.iter().enumerate())
            .map(|(index, m)| {
                let (busy, total) = (m.busy_ns.get() as f64, m.total_ns.get().max(1) as f64);
                (vec![("worker", index.to_string())], busy / total)
            })
            .collect();
        to.gauges(
            "loop_utilisation",
            "Share of its time the event loop has worked",
            utilisation,
        )?;
        let restarts = sums(w, "worker", |m| &m.restarts);
        to.counters(
            "worker_restarts",
            "Workers started again after a panic",
            restarts,
        )?;
        let (live, capacity) = self.0.sessions.sessions();
        to.gauges(
            "sessions",
            "Sessions in use",
            vec![(Vec::new(), live as f64)],
        )?;
        to.gauges(
            "sessions_max",
            "Sessions at most",
            vec![(Vec::new(), capacity as f64)],
        )?;
        let dropped = self.0.log_lines_dropped.load(Ordering::Relaxed);
        let dropped = vec![(Vec::new(), dropped)];
        to.counters(
            "access_log_lines_dropped",
            "Access log lines that could not be written",
            dropped,
        )
    }
}

impl Scrape {
    fn pages(&self, to: &mut Writer<'_>) -> fmt::Result {
        let pages = gather(&self.0.workers, |worker| &worker.pages);
        let p = &pages;
        let requests = sums(p, "page", |m| &m.requests);
        to.counters("requests", "Requests for pages", requests)?;
        let answers = sums_by(p, "page", ("class", CLASSES), |m| &m.answers);
        to.counters("answers", "Answers of pages by class of status", answers)?;
        let wait = histogram_sums(p, "page", NANOSECOND, |m| &m.queue_wait);
        to.histograms(
            "queue_wait_seconds",
            "From a request's arrival to its cohort's launch",
            wait,
        )?;
        let service = histogram_sums(p, "page", NANOSECOND, |m| &m.service_time);
        to.histograms(
            "service_time_seconds",
            "From a cohort's launch to its answers",
            service,
        )?;
        let sizes = histogram_sums(p, "page", 1.0, |m| &m.cohort_size);
        to.histograms("cohort_size", "Lanes of the cohorts launched", sizes)?;
        let reasons = LaunchReason::ALL.map(LaunchReason::name);
        let launches = sums_by(p, "page", ("reason", reasons), |m| &m.launches);
        to.counters("launches", "Cohorts launched, by reason", launches)?;
        let queued = sums(p, "page", |m| &m.queued).into_iter();
        let queued = queued
            .map(|(labels, value)| (labels, value as f64))
            .collect();
        to.gauges("queued", "Lanes in formation", queued)?;
        let stragglers = sums(p, "page", |m| &m.stragglers);
        to.counters(
            "stragglers",
            "Lanes that left their cohort to wait on for a backend",
            stragglers,
        )?;
        let errors = sums_by(p, "page", ("kind", LANE_ERROR_NAMES), |m| &m.lane_errors);
        let errors = errors.into_iter().filter(|(_, count)| *count > 0).collect();
        to.counters("lane_errors", "Lanes that failed, by kind", errors)
    }

    fn backends(&self, to: &mut Writer<'_>) -> fmt::Result {
        let backends = gather(&self.0.workers, |worker| &worker.backends);
        let b = &backends;
        let requests = sums(b, "backend", |m| &m.requests);
        to.counters("backend_requests", "Requests to backends", requests)?;
        let failures = sums(b, "backend", |m| &m.failures);
        to.counters(
            "backend_failures",
            "Requests to backends that failed",
            failures,
        )?;
        let retries = sums(b, "backend", |m| &m.retries);
        to.counters(
            "backend_retries",
            "Requests sent to backends again",
            retries,
        )?;
        let open = sums(b, "backend", |m| &m.circuit_open).into_iter();
        let open = open.map(|(labels, value)| (labels, value as f64)).collect();
        to.gauges(
            "backend_circuit_open",
            "Workers that refuse requests to the backend",
            open,
        )?;
        let latency = histogram_sums(b, "backend", NANOSECOND, |m| &m.latency);
        to.histograms(
            "backend_latency_seconds",
            "From a batch to each of its answers",
            latency,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_values_up_to_their_bound() {
        let histogram = SizeHistogram::default();
        for value in [0, 1, 2, 3, 4, 5, 1 << 40] {
            histogram.record(value, 1);
        }
        let counts: Vec<u64> = histogram.buckets.iter().map(Count::get).collect();
        assert_eq!(counts[..4], [2, 1, 2, 1]);
        assert_eq!(counts[15], 1);
    }

    #[test]
    fn a_scrape_adds_up_the_workers() {
        let metrics = Arc::new(Metrics::new(2, Arc::default(), Box::new(())));
        for worker in 0..2 {
            let page = metrics.worker(worker).page("home");
            page.requests.add(3);
            page.answered(404);
            page.queue_wait.record(5_000, 1);
            page.launches[LaunchReason::Idle as usize].add(1);
            page.lane_errors[LaneError::BackendTimeout as usize].add(1);
        }
        let text = metrics.encode().unwrap();
        for line in [
            "rhythm_requests_total{page=\"home\"} 6",
            "rhythm_answers_total{page=\"home\",class=\"4xx\"} 2",
            "rhythm_launches_total{page=\"home\",reason=\"idle\"} 2",
            "rhythm_lane_errors_total{page=\"home\",kind=\"backend_timeout\"} 2",
            "rhythm_queue_wait_seconds_count{page=\"home\"} 2",
            "rhythm_queue_wait_seconds_bucket{le=\"+Inf\",page=\"home\"} 2",
            "rhythm_contexts{worker=\"1\",state=\"busy\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
