//! How far the connection to the monitor is.

use crate::secret::Nonce;
use rhythm_net::Time;
use std::time::Duration;

/// How far a connection is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// There is none.
    Down {
        again_at: Time,
    },
    /// It is being opened.
    Connecting {
        until: Time,
    },
    /// The monitor is to show that it has the secret.
    Greeting {
        until: Time,
        nonce: Nonce,
    },
    /// It has; it is to say that it knows this node.
    Registering {
        until: Time,
    },
    Registered {
        heartbeat: Duration,
        next: Time,
    },
}

/// It, and what came of it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stage: Stage,
    /// Why the last one did not come about.
    pub(super) trouble: Option<String>,
}

impl Line {
    pub(super) fn new(now: Time) -> Line {
        Line {
            stage: Stage::Down { again_at: now },
            trouble: None,
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
