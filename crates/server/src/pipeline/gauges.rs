//! Gauges: figures that are set now and then, not counted as things happen.

use crate::flight::cohorts::Cohorts;
use crate::observe::metrics::WorkerMetrics;
use crate::site::epochs::Epochs;
use rhythm_cohort::ContextId;
use rhythm_http::Clients;
use rhythm_net::Time;
use rhythm_net::sparse::Sparse;
use rhythm_observe::Count;
use std::time::Duration;

/// How often gauges are set.
const EVERY: Duration = Duration::from_millis(100);

/// When they were last set, and whether anything has happened since.
#[derive(Debug)]
pub(super) struct Gauges {
    at: Time,
    stale: bool,
    gave_way: Dropped,
    too_slow: Dropped,
}

/// Connections that are dropped for one reason, as far as they are counted, and told of.
#[derive(Debug, Default)]
struct Dropped {
    counted: u64,
    told: u64,
    lines: Sparse,
}

impl Dropped {
    /// So many are dropped since the beginning: counts them, and says of how many a line of the
    /// log is to tell now.
    fn count(&mut self, dropped: u64, metric: &Count, now: Time) -> Option<u64> {
        metric.add(dropped - self.counted);
        self.counted = dropped;
        if dropped == self.told {
            return None;
        }
        self.lines.line(now)?;
        Some(dropped - std::mem::replace(&mut self.told, dropped))
    }
}

impl Gauges {
    /// Not set yet.
    pub(super) fn new() -> Gauges {
        Gauges {
            at: Time::ZERO,
            stale: true,
            gave_way: Dropped::default(),
            too_slow: Dropped::default(),
        }
    }

    /// Something has happened that they may show.
    #[inline]
    pub(super) fn touch(&mut self) {
        self.stale = true;
    }

    /// Whether to set them; then the next time is later.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let due = now >= self.at + EVERY;
        if due {
            self.at = now;
            self.stale = false;
        }
        due
    }

    /// When [`Gauges::is_due`] will say so; `None` while nothing happens.
    pub(super) fn wake_at(&self) -> Option<Time> {
        self.stale.then_some(self.at + EVERY)
    }

    /// Sets those of connections and cohorts, and tells of connections that were dropped.
    pub(super) fn set(
        &mut self,
        metrics: &WorkerMetrics,
        clients: &Clients,
        cohorts: &Cohorts,
        epochs: &Epochs,
    ) {
        metrics.connections.set(clients.open() as u64);
        metrics.held_bytes.set(clients.held() as u64);
        let gave_way = clients.gave_way();
        if let Some(connections) = self.gave_way.count(gave_way, &metrics.gave_way, self.at) {
            tracing::warn!(
                connections,
                "connections are dropped, the slowest first: all of a worker's hold more than \
                 limits.worker_bytes_max"
            );
        }
        let too_slow = clients.too_slow();
        if let Some(connections) = self.too_slow.count(too_slow, &metrics.too_slow, self.at) {
            tracing::info!(
                connections,
                "connections are dropped: their clients take answers, or send, more slowly than \
                 limits.rate_bytes_min, for limits.send_timeout or body_timeout"
            );
        }
        metrics.lent_bytes.set(cohorts.lent() as u64);
        let pool = &cohorts.pool;
        for (gauge, count) in metrics.contexts.iter().zip(pool.counts()) {
            gauge.set(count as u64);
        }
        for epoch in epochs.all() {
            for (page, metrics) in (0..).zip(&epoch.pages) {
                let is_its = |&id: &ContextId| {
                    (pool.key(id).epoch, pool.key(id).page) == (epoch.number, page)
                };
                let forming = pool.forming().filter(is_its);
                let lanes = forming.map(|id| pool.cohort(id).len() as u64);
                metrics.queued.set(lanes.sum());
            }
        }
    }
}
