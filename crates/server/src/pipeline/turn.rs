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
        // A tick may tell of a time when the turn before was not over yet.
        self.began.get_or_insert(now.max(self.last_end));
    }

    /// How long it has taken by now.
    pub(super) fn took(&self, now: Time) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.since(began))
    }

    /// It has ended. How long it took.
    pub(super) fn ended(&mut self, end: Time, metrics: &WorkerMetrics) -> Duration {
        let took = self.took(end);
        self.began = None;
        metrics.busy_ns.add(took.as_nanos() as u64);
        metrics.turns.record(took.as_nanos() as u64, 1);
        let since_last = end.since(self.last_end);
        metrics.total_ns.add(since_last.as_nanos() as u64);
        self.last_end = end;
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_when_the_one_before_is_over() {
        let at = |us: u64| Time::from_nanos(us * 1000);
        let metrics = WorkerMetrics::default();
        let mut turn = Turn::new(at(0));
        turn.event(at(10));
        assert_eq!(turn.ended(at(30), &metrics), Duration::from_micros(20));
        // What is heard of lies further back.
        turn.event(at(5));
        assert_eq!(turn.ended(at(40), &metrics), Duration::from_micros(10));
        assert_eq!(turn.now, at(10));
    }
}
