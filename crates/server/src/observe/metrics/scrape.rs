//! What a scrape reads: the figures of all workers added up, in the Prometheus text format.

use super::{BackendMetrics, Metrics, WorkerMetrics};
use rhythm_cohort::LaunchReason;
use rhythm_engine::cohort::LaneError;
use rhythm_observe::{Count, Histogram, HistogramSum, NANOSECOND, Sample, Writer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The figures of the workers for one page, or one backend, by its name.
type ByName<T> = BTreeMap<String, Vec<Arc<T>>>;

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

/// What is so many now, in units of this scale.
fn gauges(samples: Vec<Sample<u64>>, scale: f64) -> Vec<Sample<f64>> {
    (samples.into_iter())
        .map(|(labels, value)| (labels, value as f64 * scale))
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
                sum.add(figure(metrics), scale);
            }
            (vec![(label, name.clone())], sum)
        })
        .collect()
}

impl Metrics {
    fn tell(&self, to: &mut Writer<'_>) -> fmt::Result {
        let workers = &self.workers;
        self.pages(to)?;
        self.backends(to)?;
        let by_worker: ByName<WorkerMetrics> = (workers.iter().enumerate())
            .map(|(index, worker)| (index.to_string(), vec![worker.clone()]))
            .collect();
        let w = &by_worker;
        clients(w, to)?;
        cohorts(w, to)?;
        self.loops(w, to)?;
        self.sessions(w, to)?;
        let (dropped, failures) = self.log.lost_and_failed();
        to.counter(
            "access_log_lines_dropped",
            "Access log lines that could not be written, or had no room to wait for it",
            dropped,
        )?;
        to.counter(
            "access_log_failures",
            "Times that the access log could not be written or opened again",
            failures,
        )
    }
}

/// What workers tell of their clients.
fn clients(w: &ByName<WorkerMetrics>, to: &mut Writer<'_>) -> fmt::Result {
    let open = gauges(sums(w, "worker", |m| &m.connections), 1.0);
    to.gauges("connections", "Connections open", open)?;
    let accepted = sums(w, "worker", |m| &m.accepted);
    to.counters("connections_accepted", "Connections accepted", accepted)?;
    let yielded = sums(w, "worker", |m| &m.yielded);
    to.counters(
        "connections_yielded",
        "Silent connections closed because others needed their places",
        yielded,
    )?;
    let held = gauges(sums(w, "worker", |m| &m.held_bytes), 1.0);
    to.gauges("held_bytes", "Bytes that clients' connections hold", held)?;
    let gave_way = sums(w, "worker", |m| &m.gave_way);
    to.counters(
        "connections_gave_way",
        "Connections dropped because all of a worker's held too much",
        gave_way,
    )?;
    let too_slow = sums(w, "worker", |m| &m.too_slow);
    to.counters(
        "connections_too_slow",
        "Connections dropped because their client took an answer, or sent, more slowly than it may",
        too_slow,
    )?;
    let host = sums_by(w, "worker", ("class", CLASSES), |m| &m.host_answers);
    to.counters(
        "host_answers",
        "Answers given without a cohort: files and errors",
        host,
    )
}

/// What they tell of their cohorts.
fn cohorts(w: &ByName<WorkerMetrics>, to: &mut Writer<'_>) -> fmt::Result {
    let stalls = sums(w, "worker", |m| &m.stalls);
    to.counters(
        "stalls",
        "Requests that waited for a free cohort context",
        stalls,
    )?;
    let memory_waits = sums(w, "worker", |m| &m.memory_waits);
    to.counters(
        "cohort_memory_waits",
        "Times that a cohort waited for memory that others had",
        memory_waits,
    )?;
    let lent = gauges(sums(w, "worker", |m| &m.lent_bytes), 1.0);
    to.gauges(
        "cohort_lent_bytes",
        "Bytes that cohorts have of what is common to a worker's",
        lent,
    )?;
    let contexts = sums_by(w, "worker", ("state", STATES), |m| &m.contexts);
    to.gauges(
        "contexts",
        "Cohort contexts by state",
        gauges(contexts, 1.0),
    )
}

impl Metrics {
    /// What workers tell of their loops.
    fn loops(&self, w: &ByName<WorkerMetrics>, to: &mut Writer<'_>) -> fmt::Result {
        let busy = gauges(sums(w, "worker", |m| &m.busy_ns), NANOSECOND);
        to.gauges("loop_busy_seconds", "Time the event loop has worked", busy)?;
        let total = gauges(sums(w, "worker", |m| &m.total_ns), NANOSECOND);
        to.gauges("loop_seconds", "Time the event loop has run", total)?;
        let utilisation = (self.workers.iter().enumerate())
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
        )
    }

    fn sessions(&self, w: &ByName<WorkerMetrics>, to: &mut Writer<'_>) -> fmt::Result {
        let (live, capacity) = self.sessions.sessions();
        to.gauge("sessions", "Sessions in use", live as f64)?;
        to.gauge("sessions_max", "Sessions at most", capacity as f64)?;
        to.counter(
            "sessions_replaced",
            "Sessions ended by a sign-in of a user who had too many",
            self.sessions.replaced(),
        )?;
        let begun = sums(w, "worker", |m| &m.sign_ins);
        to.counters("sign_ins", "Sessions begun", begun)?;
        let failed = sums(w, "worker", |m| &m.sign_ins_failed);
        to.counters("sign_ins_failed", "Sign-ins that failed", failed)?;
        let refused = sums(w, "worker", |m| &m.sign_ins_refused);
        to.counters("sign_ins_refused", "Sign-ins answered 429", refused)
    }

    fn pages(&self, to: &mut Writer<'_>) -> fmt::Result {
        let pages = gather(&self.workers, |worker| &worker.pages);
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
        let queued = gauges(sums(p, "page", |m| &m.queued), 1.0);
        to.gauges("queued", "Lanes in formation", queued)?;
        let stragglers = sums(p, "page", |m| &m.stragglers);
        to.counters(
            "stragglers",
            "Lanes that left their cohort to wait on for a backend",
            stragglers,
        )?;
        let kinds = LaneError::ALL.map(LaneError::name);
        let errors = sums_by(p, "page", ("kind", kinds), |m| &m.lane_errors);
        let errors = errors.into_iter().filter(|(_, count)| *count > 0).collect();
        to.counters("lane_errors", "Lanes that failed, by kind", errors)
    }

    fn backends(&self, to: &mut Writer<'_>) -> fmt::Result {
        let backends = gather(&self.workers, |worker| &worker.backends);
        let b = &backends;
        let requests = sums(b, "backend", |m| &m.requests);
        to.counters("backend_requests", "Requests to backends", requests)?;
        let failures = sums(b, "backend", |m| &m.failures);
        to.counters(
            "backend_failures",
            "Requests to backends that failed",
            failures,
        )?;
        let shared = sums(b, "backend", |m| &m.shared);
        to.counters(
            "backend_shared",
            "Of those, requests for which another of their cohort was sent, which asked the same",
            shared,
        )?;
        let merged = sums(b, "backend", |m| &m.merged);
        to.counters(
            "backend_merged",
            "Of those, requests that were asked for with others by one statement",
            merged,
        )?;
        let retries = sums(b, "backend", |m| &m.retries);
        to.counters(
            "backend_retries",
            "Requests sent to backends again",
            retries,
        )?;
        type Now = for<'a> fn(&'a BackendMetrics) -> &'a Count;
        let states: [(&str, &str, Now); 4] = [
            (
                "backend_under_way",
                "Requests to backends that are not answered yet",
                |m| &m.under_way,
            ),
            (
                "backend_waiting",
                "Of those, requests that wait for a place on a connection",
                |m| &m.waiting,
            ),
            (
                "backend_connections",
                "Connections to backends that stand",
                |m| &m.connections,
            ),
            (
                "backend_circuit_open",
                "Workers that leave the backend alone, as it failed and no trial went well since",
                |m| &m.circuit_open,
            ),
        ];
        for (name, help, now) in states {
            to.gauges(name, help, gauges(sums(b, "backend", now), 1.0))?;
        }
        let latency = histogram_sums(b, "backend", NANOSECOND, |m| &m.latency);
        to.histograms(
            "backend_latency_seconds",
            "From a batch to each of its answers",
            latency,
        )
    }
}

impl Metrics {
    /// All of it in the Prometheus text format (OpenMetrics 1.0).
    ///
    /// # Errors
    /// None that is known: writing to a text cannot fail.
    pub fn encode(self: &Arc<Metrics>) -> Result<String, fmt::Error> {
        let metrics = self.clone();
        rhythm_observe::encode("rhythm", move |to| metrics.tell(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_adds_up_the_workers() {
        let metrics = Arc::new(Metrics::new(2, Arc::default(), Box::new(())));
        for worker in 0..2 {
            let page = metrics.worker(worker).page("home");
            page.requests.add(3);
            page.answered(404);
            page.queue_wait.record(5_000, 1);
            page.launches[LaunchReason::Idle as usize].add(1);
            page.lane_errors[LaneError::BackendTimeout.index()].add(1);
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
