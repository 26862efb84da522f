//! Gauges: figures that are set now and then, not counted as things happen.

use crate::flight::cohorts::Cohorts;
use crate::observe::metrics::WorkerMetrics;
use crate::site::epoch::Epoch;
use rhythm_http::Clients;
use rhythm_net::Time;
use std::time::Duration;

/// How often gauges are set.
const EVERY: Duration = Duration::from_millis(100);

/// When they were last set, and whether anything has happened since.
#[derive(Debug)]
pub(super) struct Gauges {
    at: Time,
    stale: bool,
}

impl Gauges {
    /// Not set yet.
    pub(super) fn new() -> Gauges {
        Gauges {
            at: Time::ZERO,
            stale: true,
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

    /// Sets those of connections and cohorts.
    pub(super) fn set(
        &self,
        metrics: &WorkerMetrics,
        clients: &Clients,
        cohorts: &Cohorts,
        epoch: &Epoch,
    ) {
        metrics.connections.set(clients.open() as u64);
        let pool = &cohorts.pool;
        for (gauge, count) in metrics.contexts.iter().zip(pool.counts()) {
            gauge.set(count as u64);
        }
        for (page, metrics) in (0..).zip(&epoch.pages) {
            let forming = pool.forming().filter(|&id| pool.key(id).page == page);
            let lanes = forming.map(|id| pool.cohort(id).len() as u64);
            metrics.queued.set(lanes.sum());
        }
    }
}
