//! What a scrape reads: the figures of all workers added up, in the Prometheus text format.

use super::{BackendMetrics, Metrics, ProxyMetrics, SiteMetrics, WorkerMetrics};
use rhythm_cohort::LaunchReason;
use rhythm_engine::cohort::LaneError;
use rhythm_observe::{Count, Histogram, HistogramSum, NANOSECOND, Sample, Writer, process};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Labels, each with its value.
type Labels = Vec<(&'static str, String)>;

/// The figures of the workers for one page, or one backend, by what it is.
pub(super) type ByLabels<T> = BTreeMap<Labels, Vec<Arc<T>>>;

/// The classes of status, as labels.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The states of contexts, as labels.
const STATES: [&str; 4] = ["free", "partially_full", "full", "busy"];

impl Metrics {
    /// The label that has a site's name, where there are several.
    fn service(&self, site: usize) -> Labels {
        let (name, _) = &self.sites[site];
        let label = name.iter().map(|name| ("service", name.clone()));
        label.collect()
    }

    /// The figures of the workers for what sites have, such as pages, by its name.
    pub(super) fn gather<T>(
        &self,
        label: &'static str,
        map: impl Fn(&SiteMetrics) -> &Mutex<BTreeMap<String, Arc<T>>>,
    ) -> ByLabels<T> {
        let mut all = ByLabels::<T>::new();
        for (worker, site) in
            (self.workers.iter()).flat_map(|it| (0..self.sites.len()).map(move |site| (it, site)))
        {
            let of_site = worker.site(site);
            let of_site = map(&of_site).lock().unwrap_or_else(PoisonError::into_inner);
            for (name, metrics) in of_site.iter() {
                let mut labels = self.service(site);
                labels.push((label, name.clone()));
                all.entry(labels).or_default().push(metrics.clone());
            }
        }
        all
    }
}

/// One figure of each, added up over the workers.
fn sums<T>(all: &ByLabels<T>, figure: impl Fn(&T) -> &Count) -> Vec<Sample<u64>> {
    all.iter()
        .map(|(labels, metrics)| {
            let sum = metrics.iter().map(|metrics| figure(metrics).get()).sum();
            (labels.clone(), sum)
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
    all: &ByLabels<T>,
    (by, names): (&'static str, [&'static str; N]),
    figures: impl Fn(&T) -> &[Count; N],
) -> Vec<Sample<u64>> {
    let mut samples = Vec::new();
    for (index, value) in names.into_iter().enumerate() {
        for (mut labels, sum) in sums(all, |metrics| &figures(metrics)[index]) {
            labels.push((by, value.to_owned()));
            samples.push((labels, sum));
        }
    }
    samples
}

pub(super) fn histogram_sums<T, const SHIFT: u32, const BUCKETS: usize, const FINE: u32>(
    all: &ByLabels<T>,
    scale: f64,
    figure: impl Fn(&T) -> &Histogram<SHIFT, BUCKETS, FINE>,
) -> Vec<Sample<HistogramSum>> {
    all.iter()
        .map(|(labels, metrics)| {
            let mut sum = HistogramSum::default();
            for metrics in metrics {
                sum.add(figure(metrics), scale);
            }
            (labels.clone(), sum)
        })
        .collect()
}

impl Metrics {
    fn tell(&self, to: &mut Writer<'_>) -> fmt::Result {
        let workers = &self.workers;
        self.pages(to)?;
        self.backends(to)?;
        self.proxies(to)?;
        let by_worker: ByLabels<WorkerMetrics> = (workers.iter().enumerate())
            .map(|(index, worker)| (vec![("worker", index.to_string())], vec![worker.clone()]))
            .collect();
        let w = &by_worker;
        clients(w, to)?;
        protocols(w, to)?;
        let until = self.certificates.iter().map(Count::get).enumerate();
        let until = until.filter(|(_, until)| *until > 0);
        let until = until.map(|(site, until)| (self.service(site), until as f64));
        let help = "When the certificate that is shown to clients expires (Unix time)";
        to.gauges(
            "certificate_expiry_timestamp_seconds",
            help,
            until.collect(),
        )?;
        cohorts(w, to)?;
        self.loops(w, to)?;
        self.sessions(to)?;
        let cpu = process::cpu_time().as_secs_f64();
        let help = "Processor time of the process";
        to.times("process_cpu_seconds", help, vec![(Vec::new(), cpu)])?;
        if let Some(bytes) = process::resident_bytes() {
            let help = "Bytes of memory that the process has";
            to.gauge("process_resident_bytes", help, bytes as f64)?;
        }
        if let Some(device) = &self.device {
            device.tell(to)?;
        }
        if let Some(traces) = &self.traces {
            let [exported, dropped, failures] = traces.counts();
            let help = "Spans of traces that a collector took";
            to.counter("trace_spans_exported", help, exported)?;
            let help = "Spans of traces that found no room, or that no collector took";
            to.counter("trace_spans_dropped", help, dropped)?;
            let help = "Tries to hand spans of traces to a collector that failed";
            to.counter("trace_export_failures", help, failures)?;
        }
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
fn clients(w: &ByLabels<WorkerMetrics>, to: &mut Writer<'_>) -> fmt::Result {
    let open = gauges(sums(w, |m| &m.connections), 1.0);
    to.gauges("connections", "Connections open", open)?;
    let accepted = sums(w, |m| &m.accepted);
    to.counters("connections_accepted", "Connections accepted", accepted)?;
    let yielded = sums(w, |m| &m.yielded);
    to.counters(
        "connections_yielded",
        "Silent connections closed because others needed their places",
        yielded,
    )?;
    let held = gauges(sums(w, |m| &m.held_bytes), 1.0);
    to.gauges("held_bytes", "Bytes that clients' connections hold", held)?;
    let gave_way = sums(w, |m| &m.gave_way);
    to.counters(
        "connections_gave_way",
        "Connections dropped because all of a worker's held too much",
        gave_way,
    )?;
    let too_slow = sums(w, |m| &m.too_slow);
    to.counters(
        "connections_too_slow",
        "Connections dropped because their client took an answer, or sent, more slowly than it may",
        too_slow,
    )?;
    let host = sums_by(w, ("class", CLASSES), |m| &m.host_answers);
    to.counters(
        "host_answers",
        "Answers given without a cohort: files and errors",
        host,
    )
}

/// What they tell of clients that speak TLS or HTTP/2.
fn protocols(w: &ByLabels<WorkerMetrics>, to: &mut Writer<'_>) -> fmt::Result {
    let tls = w.iter().map(|(labels, of)| (labels, &of[0].tls));
    let (mut greeted, mut failed) = (Vec::new(), Vec::new());
    for (labels, figures) in tls {
        for (kind, count) in ["full", "resumed"].into_iter().zip(figures.greeted()) {
            let mut labels = labels.clone();
            labels.push(("kind", kind.to_owned()));
            greeted.push((labels, count));
        }
        failed.push((labels.clone(), figures.failed()));
    }
    let help = "Handshakes of TLS with clients that went well";
    to.counters("tls_handshakes", help, greeted)?;
    let help = "Handshakes of TLS with clients that failed";
    to.counters("tls_handshakes_failed", help, failed)?;
    let connections = gauges(sums(w, |m| &m.http2.connections), 1.0);
    let help = "Connections that speak HTTP/2";
    to.gauges("http2_connections", help, connections)?;
    let streams = gauges(sums(w, |m| &m.http2.streams), 1.0);
    to.gauges("http2_streams", "Streams of HTTP/2 under way", streams)?;
    let requests = sums(w, |m| &m.http2.requests);
    to.counters("http2_requests", "Requests that came by HTTP/2", requests)?;
    let refused = sums(w, |m| &m.http2.refused);
    let help = "Requests by HTTP/2 that were refused because too many were under way";
    to.counters("http2_refused", help, refused)?;
    let resets = sums(w, |m| &m.http2.resets);
    let help = "Requests by HTTP/2 that their clients took back, or left";
    to.counters("http2_resets", help, resets)
}

/// What they tell of their cohorts.
fn cohorts(w: &ByLabels<WorkerMetrics>, to: &mut Writer<'_>) -> fmt::Result {
    let stalls = sums(w, |m| &m.stalls);
    to.counters(
        "stalls",
        "Requests that waited for a free cohort context",
        stalls,
    )?;
    let memory_waits = sums(w, |m| &m.memory_waits);
    to.counters(
        "cohort_memory_waits",
        "Times that a cohort waited for memory that others had",
        memory_waits,
    )?;
    let slow = sums(w, |m| &m.slow_requests);
    to.counters(
        "slow_requests",
        "Requests that took `server.slow_request` or longer",
        slow,
    )?;
    let long_passes = sums(w, |m| &m.long_passes);
    to.counters(
        "cohort_long_passes",
        "Passes of cohorts that took long, after each of which others had their turn",
        long_passes,
    )?;
    let lent = gauges(sums(w, |m| &m.lent_bytes), 1.0);
    to.gauges(
        "cohort_lent_bytes",
        "Bytes that cohorts have of what is common to a worker's",
        lent,
    )?;
    let contexts = sums_by(w, ("state", STATES), |m| &m.contexts);
    to.gauges(
        "contexts",
        "Cohort contexts by state",
        gauges(contexts, 1.0),
    )
}

impl Metrics {
    /// What workers tell of their loops.
    fn loops(&self, w: &ByLabels<WorkerMetrics>, to: &mut Writer<'_>) -> fmt::Result {
        let busy = gauges(sums(w, |m| &m.busy_ns), NANOSECOND);
        to.times("loop_busy_seconds", "Time the event loop has worked", busy)?;
        let total = gauges(sums(w, |m| &m.total_ns), NANOSECOND);
        to.times("loop_seconds", "Time the event loop has run", total)?;
        let turns = histogram_sums(w, NANOSECOND, |m| &m.turns);
        let help = "From a turn of the event loop's first event to its end";
        to.histograms("loop_turn_seconds", help, turns)?;
        let restarts = sums(w, |m| &m.restarts);
        to.counters(
            "worker_restarts",
            "Workers started again after a panic",
            restarts,
        )
    }

    fn sessions(&self, to: &mut Writer<'_>) -> fmt::Result {
        let (mut live, mut most, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
        let mut by_site = ByLabels::<SiteMetrics>::new();
        for (site, (_, sessions)) in self.sites.iter().enumerate() {
            let labels = self.service(site);
            let (in_use, capacity) = sessions.sessions();
            live.push((labels.clone(), in_use as f64));
            most.push((labels.clone(), capacity as f64));
            replaced.push((labels, sessions.replaced()));
            for (index, worker) in self.workers.iter().enumerate() {
                let mut labels = vec![("worker", index.to_string())];
                labels.extend(self.service(site));
                by_site.insert(labels, vec![worker.site(site)]);
            }
        }
        to.gauges("sessions", "Sessions in use", live)?;
        to.gauges("sessions_max", "Sessions at most", most)?;
        to.counters(
            "sessions_replaced",
            "Sessions ended by a sign-in of a user who had too many",
            replaced,
        )?;
        let w = &by_site;
        let begun = sums(w, |m| &m.sign_ins);
        to.counters("sign_ins", "Sessions begun", begun)?;
        let failed = sums(w, |m| &m.sign_ins_failed);
        to.counters("sign_ins_failed", "Sign-ins that failed", failed)?;
        let refused = sums(w, |m| &m.sign_ins_refused);
        to.counters("sign_ins_refused", "Sign-ins answered 429", refused)
    }

    fn pages(&self, to: &mut Writer<'_>) -> fmt::Result {
        let pages = self.gather("page", |site| &site.pages);
        let p = &pages;
        let requests = sums(p, |m| &m.requests);
        to.counters("requests", "Requests for pages", requests)?;
        let answers = sums_by(p, ("class", CLASSES), |m| &m.answers);
        to.counters("answers", "Answers of pages by class of status", answers)?;
        let passed_on = sums(p, |m| &m.passed_on);
        let help = "Requests that pages passed on to a proxy route, whose answers are no page's";
        to.counters("passed_on", help, passed_on)?;
        let wait = histogram_sums(p, NANOSECOND, |m| &m.queue_wait);
        to.histograms(
            "queue_wait_seconds",
            "From a request's arrival to its cohort's launch",
            wait,
        )?;
        let service = histogram_sums(p, NANOSECOND, |m| &m.service_time);
        to.histograms(
            "service_time_seconds",
            "From a cohort's launch to its answers",
            service,
        )?;
        let whole = histogram_sums(p, NANOSECOND, |m| &m.whole_time);
        to.histograms(
            "request_seconds",
            "From a request's first byte to the last of its answer that the client's socket took",
            whole,
        )?;
        let sizes = histogram_sums(p, 1.0, |m| &m.cohort_size);
        to.histograms("cohort_size", "Lanes of the cohorts launched", sizes)?;
        let reasons = LaunchReason::ALL.map(LaunchReason::name);
        let launches = sums_by(p, ("reason", reasons), |m| &m.launches);
        to.counters("launches", "Cohorts launched, by reason", launches)?;
        let queued = gauges(sums(p, |m| &m.queued), 1.0);
        to.gauges("queued", "Lanes in formation", queued)?;
        let stragglers = sums(p, |m| &m.stragglers);
        to.counters(
            "stragglers",
            "Lanes that left their cohort to wait on for a backend",
            stragglers,
        )?;
        let kinds = LaneError::ALL.map(LaneError::name);
        let errors = sums_by(p, ("kind", kinds), |m| &m.lane_errors);
        let errors = errors.into_iter().filter(|(_, count)| *count > 0).collect();
        to.counters("lane_errors", "Lanes that failed, by kind", errors)
    }

    fn backends(&self, to: &mut Writer<'_>) -> fmt::Result {
        let backends = self.gather("backend", |site| &site.backends);
        let b = &backends;
        let requests = sums(b, |m| &m.requests);
        to.counters("backend_requests", "Requests to backends", requests)?;
        let failures = sums(b, |m| &m.failures);
        to.counters(
            "backend_failures",
            "Requests to backends that failed",
            failures,
        )?;
        let shared = sums(b, |m| &m.shared);
        to.counters(
            "backend_shared",
            "Of those, requests for which another of their cohort was sent, which asked the same",
            shared,
        )?;
        let merged = sums(b, |m| &m.merged);
        to.counters(
            "backend_merged",
            "Of those, requests that were asked for with others by one statement",
            merged,
        )?;
        let retries = sums(b, |m| &m.retries);
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
            to.gauges(name, help, gauges(sums(b, now), 1.0))?;
        }
        let latency = histogram_sums(b, NANOSECOND, |m| &m.latency);
        to.histograms(
            "backend_latency_seconds",
            "From a batch to each of its answers",
            latency,
        )
    }
}

impl Metrics {
    fn proxies(&self, to: &mut Writer<'_>) -> fmt::Result {
        let mut all = ByLabels::<ProxyMetrics>::new();
        for worker in &self.workers {
            for index in 0..self.sites.len() {
                let of_site = worker.site(index);
                let of_site = of_site
                    .proxies
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                for ((route, server), metrics) in of_site.iter() {
                    let mut labels = self.service(index);
                    labels.push(("route", route.clone()));
                    labels.push(("server", server.clone()));
                    all.entry(labels).or_default().push(metrics.clone());
                }
            }
        }
        let p = &all;
        let requests = sums(p, |m| &m.requests);
        to.counters(
            "proxy_requests",
            "Requests sent to servers of proxy routes",
            requests,
        )?;
        let failures = sums(p, |m| &m.failures);
        to.counters(
            "proxy_failures",
            "Requests of proxy routes that failed, or whose answers were cut off",
            failures,
        )?;
        let retries = sums(p, |m| &m.retries);
        to.counters(
            "proxy_retries",
            "Requests of proxy routes that were sent again",
            retries,
        )?;
        let under_way = gauges(sums(p, |m| &m.under_way), 1.0);
        to.gauges(
            "proxy_under_way",
            "Requests under way on servers of proxy routes",
            under_way,
        )?;
        let connections = gauges(sums(p, |m| &m.connections), 1.0);
        to.gauges(
            "proxy_connections",
            "Connections to servers of proxy routes",
            connections,
        )?;
        let latency = histogram_sums(p, NANOSECOND, |m| &m.latency);
        to.histograms(
            "proxy_latency_seconds",
            "From a request's arrival to the end of a proxied answer",
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
    use crate::observe::metrics::PageTotals;

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

    #[test]
    fn what_all_workers_counted_of_a_page_is_told() {
        let metrics = Metrics::new(2, Arc::default(), Box::new(()));
        for worker in 0..2 {
            let page = metrics.worker(worker).page("home");
            page.requests.add(3);
            page.answered(200);
            page.answered(503);
            page.queue_wait.record(5_000, 2);
            page.service_time.record(1_000, 2);
        }
        let mut told = Vec::new();
        metrics.each_page(|site, name, totals| {
            told.push((site.map(str::to_owned), name.to_owned(), totals));
        });
        let totals = PageTotals {
            requests: 6,
            answers: 4,
            failed: 2,
            took_ns: 24_000,
        };
        assert_eq!(told, [(None, "home".to_owned(), totals)]);
    }

    #[test]
    fn figures_of_several_sites_have_their_names() {
        let site = |name: &str| (Some(name.to_owned()), Box::new(()) as _);
        let sites = vec![site("bank"), site("shop")];
        let metrics = Arc::new(Metrics::of_sites(2, Arc::default(), sites));
        for worker in 0..2 {
            for index in 0..2 {
                let site = metrics.worker(worker).site(index);
                site.page("home").requests.add(3 + index as u64);
                site.backend("db").requests.add(1);
                site.sign_ins.add(1);
            }
        }
        let text = metrics.encode().unwrap();
        for line in [
            "rhythm_requests_total{service=\"bank\",page=\"home\"} 6",
            "rhythm_requests_total{service=\"shop\",page=\"home\"} 8",
            "rhythm_backend_requests_total{service=\"shop\",backend=\"db\"} 2",
            "rhythm_sign_ins_total{worker=\"1\",service=\"bank\"} 1",
            "rhythm_sessions{service=\"bank\"} 0",
            "rhythm_sessions_replaced_total{service=\"shop\"} 0",
            "rhythm_connections{worker=\"1\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
