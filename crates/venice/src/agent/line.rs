//! How far the connection to the monitor is.

use crate::secret::Nonce;
use rhythm_net::Time;
use std::time::Duration;

/// How far a connection is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// There is none.
    Down { again_at: Time },
    /// It is being opened.
    Connecting { until: Time },
    /// The monitor is to show that it has the secret.
    Greeting { until: Time, nonce: Nonce },
    /// It has; it is to say that it knows this node.
    Registering { until: Time },
    Registered {
        heartbeat: Duration,
        next: Time,
        heard_at: Time,
    },
}

/// It, and what came of it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stage: Stage,
    /// How many monitors there are, of which one leads; at least one.
    monitors: usize,
    /// Which of them it is to.
    at: usize,
    /// How many were tried in vain since the last pause.
    tried: usize,
    /// Why the last one did not come about.
    pub(super) trouble: Option<String>,
}

impl Line {
    pub(super) fn new(monitors: usize, now: Time) -> Line {
        Line {
            stage: Stage::Down { again_at: now },
            monitors: monitors.max(1),
            at: 0,
            tried: 0,
            trouble: None,
        }
    }

    /// Which monitor it is to.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether another monitor may lead where this one does not.
    pub(super) fn has_others(&self) -> bool {
        self.monitors > 1
    }

    /// It is over: the next monitor is tried, at once, or after a pause where all were tried.
    pub(super) fn go_on(&mut self, now: Time, pause: Duration) {
        self.at = (self.at + 1) % self.monitors;
        self.tried += 1;
        let mut again_at = now;
        if self.tried >= self.monitors {
            (self.tried, again_at) = (0, now + pause);
        }
        self.stage = Stage::Down { again_at };
    }

    /// The monitor knows this node, and wants to hear of it as often.
    pub(super) fn registered(&mut self, heartbeat: Duration, now: Time) {
        self.stage = Stage::Registered {
            heartbeat,
            next: now,
            heard_at: now,
        };
        (self.trouble, self.tried) = (None, 0);
    }

    /// The monitor said something.
    pub(super) fn heard(&mut self, now: Time) {
        if let Stage::Registered { heard_at, .. } = &mut self.stage {
            *heard_at = now;
        }
    }

    pub(super) fn is_registered(&self) -> bool {
        matches!(self.stage, Stage::Registered { .. })
    }

    /// Whether what is said now comes behind the registration, in which all before it is.
    pub(super) fn is_heard(&self) -> bool {
        matches!(
            self.stage,
            Stage::Registering { .. } | Stage::Registered { .. }
        )
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    pub(super) fn wake_at(&self) -> Time {
        match self.stage {
            Stage::Down { again_at } => again_at,
            Stage::Connecting { until }
            | Stage::Greeting { until, .. }
            | Stage::Registering { until } => until,
            Stage::Registered { next, .. } => next,
        }
    }
}
