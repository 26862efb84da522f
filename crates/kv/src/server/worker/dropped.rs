//! Connections that were dropped, told of now and then however many they are.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_told_now_and_then_and_in_full() {
        let mut dropped = Dropped::default();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(dropped.tell(3, at(5)), Some(3));
        assert_eq!(dropped.tell(2, at(6)), None);
        assert_eq!(dropped.tell(4, at(14)), None);
        assert_eq!(dropped.tell(1, at(15)), Some(7));
    }
}
