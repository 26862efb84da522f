//! Metrics: counted where things happen, read where they are scraped.
//!
//! Each worker has figures of its own, and only it writes them, so that counting is a load and a
//! store without a locked instruction or a shared cache line. A scrape adds up the figures of all
//! workers. They outlive a reload: pages are known by their name, for as long as they are served.

mod scrape;

use crate::observe::access_log::LogState;
use rhythm_engine::cohort::LaneError;
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
/// Of cohort sizes: 1 to 65536, the most that `cohort.size` may be.
pub type SizeHistogram = Histogram<0, 18>;

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
    /// Launches by [`LaunchReason`](rhythm_cohort::LaunchReason).
    pub launches: [Count; 4],
    /// Lanes that left their cohort because a backend kept them waiting.
    pub stragglers: Count,
    /// Lanes failed, by [`LaneError::index`].
    pub lane_errors: [Count; LaneError::ALL.len()],
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
    /// Requests not answered yet, now.
    pub under_way: Count,
    /// Those of them that wait for a place on a connection.
    pub waiting: Count,
    /// Connections that stand now.
    pub connections: Count,
    /// 1 while the circuit is open, and no trial has gone well since.
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
    /// Silent connections closed because others needed their places.
    pub yielded: Count,
    /// Connections that waited for a free context.
    pub stalls: Count,
    /// Cohorts that waited for memory that others had.
    pub memory_waits: Count,
    /// Bytes that cohorts have now of what is common to them.
    pub lent_bytes: Count,
    /// Bytes that connections hold now.
    pub held_bytes: Count,
    /// Connections dropped because all of a worker's held too much.
    pub gave_way: Count,
    /// Answers that no page gave: static files and errors, by class of status.
    pub host_answers: [Count; 5],
    /// Sessions begun.
    pub sign_ins: Count,
    /// Answers of pages that can begin a session, and did not.
    pub sign_ins_failed: Count,
    /// Sign-ins answered 429.
    pub sign_ins_refused: Count,
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

    /// Forgets pages and backends that nobody counts for any more: a reload has taken them away,
    /// and what was under way is answered. Whether no more than so many are left: whoever reads the
    /// figures holds them for a moment, and those are forgotten the next time.
    pub(crate) fn retire(&self, pages: usize, backends: usize) -> bool {
        let left = (retain_counted(&self.pages), retain_counted(&self.backends));
        left.0 <= pages && left.1 <= backends
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
fn retain_counted<T>(map: &Mutex<BTreeMap<String, Arc<T>>>) -> usize {
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    map.retain(|_, figures| Arc::strong_count(figures) > 1);
    map.len()
}

/// The figures of a server.
#[derive(Debug)]
pub struct Metrics {
    workers: Vec<Arc<WorkerMetrics>>,
    /// How the access log fares.
    pub log: Arc<LogState>,
    /// Sessions that exist, and how many can.
    pub sessions: Box<dyn SessionGauge>,
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
    /// Figures for this many workers.
    pub fn new(workers: usize, log: Arc<LogState>, sessions: Box<dyn SessionGauge>) -> Metrics {
        Metrics {
            workers: (0..workers).map(|_| Arc::default()).collect(),
            log,
            sessions,
        }
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
    fn buckets_hold_values_up_to_their_bound() {
        let histogram = SizeHistogram::default();
        for value in [0, 1, 2, 3, 4, 5, 65_536, 65_537] {
            histogram.record(value, 1);
        }
        let counts: Vec<u64> = histogram.buckets.iter().map(Count::get).collect();
        assert_eq!(counts[..4], [2, 1, 2, 1]);
        // The largest cohort has a bound; what is larger has none.
        assert_eq!(counts[15..], [0, 1, 1]);
    }

    #[test]
    fn figures_that_are_read_just_now_are_forgotten_the_next_time() {
        let metrics = WorkerMetrics::default();
        let (kept, read) = (metrics.page("kept"), metrics.page("gone"));
        assert!(!metrics.retire(1, 0));
        drop(read);
        assert!(metrics.retire(1, 0));
        assert!(Arc::ptr_eq(&kept, &metrics.page("kept")));
    }
}
