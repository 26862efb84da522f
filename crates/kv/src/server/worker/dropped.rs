//! Connections that were dropped, as the log is told of them: not of each.

use rhythm_net::Time;
use std::time::Duration;

/// How often it is told at most that connections were dropped.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Connections that were dropped, and when that was told.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    untold: u64,
    told: Option<Time>,
}

impl Dropped {
    /// So many more were: how many to tell of, if it is to be told.
    pub(super) fn tell(&mut self, more: u64, now: Time) -> Option<u64> {
        self.untold += more;
        if self.told.is_some_and(|told| now.since(told) < TOLD_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}
