//! The turn of the driver that is under way: its times, and what share of all time turns take.

use crate::observe::metrics::WorkerMetrics;
use rhythm_net::Time;
use std::time::Duration;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Turn {
    /// When its first event came; `None` between two turns.
    began: Option<Time>,
    /// When the one before ended.
    last_end: Time,
    /// The time of the last event.
    pub(super) now: Time,
    /// At the last tick: up to when all that came is told of. What nobody answered by then is late,
    /// not what nobody has looked at.
    pub(super) heard: Time,
}

impl Turn {
    /// None yet.
    pub(super) fn new(now: Time) -> Turn {
        Turn {
            began: None,
            last_end: now,
            now,
            heard: now,
        }
    }

    /// An event of it begins.
    #[inline]
    pub(super) fn event(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.began.get_or_insert(now);
    }

    /// It has ended. How long it took.
    pub(super) fn ended(&mut self, end: Time, metrics: &WorkerMetrics) -> Duration {
        let took = end.since(self.began.take().unwrap_or(end));
        metrics.busy_ns.add(took.as_nanos() as u64);
        let since_last = end.since(self.last_end);
        metrics.total_ns.add(since_last.as_nanos() as u64);
        self.last_end = end;
        took
    }
}
