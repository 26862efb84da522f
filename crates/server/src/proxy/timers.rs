//! When what is to be seen to next: a time of each, which may be put off without being touched.

use rhythm_http::AnswerSlot;
use rhythm_net::{ConnectionId, Time};
use std::collections::BTreeMap;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A request, or its answer.
    Exchange(AnswerSlot),
    /// A connection that is idle.
    Idle(ConnectionId),
    /// A server is to be asked whether it is in order: a route, and which of its servers.
    Check(u32, usize),
    /// One of those who wait for a server that is away is to try it: a route, and which of its
    /// servers.
    Again(u32, usize),
    /// The log may be told whether a server is in order: a route, and which of its servers.
    News(u32, usize),
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<(Time, u64), Due>,
    last: u64,
}

/// Names a timer that is set.
pub(super) type Timer = (Time, u64);

impl Timers {
    /// Sets a timer.
    pub(super) fn set(&mut self, at: Time, due: Due) -> Timer {
        self.last += 1;
        self.due.insert((at, self.last), due);
        (at, self.last)
    }

    /// Forgets one that is set.
    pub(super) fn clear(&mut self, timer: Timer) {
        self.due.remove(&timer);
    }

    /// Takes one whose time has come.
    pub(super) fn next(&mut self, now: Time) -> Option<Due> {
        let first = self.due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the next one is due.
    pub(super) fn wake_at(&self) -> Option<Time> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }
}
