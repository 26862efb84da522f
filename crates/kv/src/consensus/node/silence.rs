//! Which leases have given no sign of life for too long. The leader alone counts, from when it
//! began to lead or saw the last sign of life in the log: so a lease that gives signs in time is
//! never ended, and one that gives none is ended some time after. While the leader stood still, or
//! could not write, it could see none, and that time counts for nobody. Signs that wait at other
//! nodes by then, which may have stood still with it, have a while to come.

use crate::consensus::keyspace::{Command, Lease};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// What `raft` counts time in.
pub const TICK: Duration = Duration::from_millis(50);
/// Who is late by more than this stood still: signs come in each turn else.
const STILL: Duration = Duration::from_millis(200);
/// Ticks after a standstill in which no lease ends: some rounds between nodes.
const GRACE_TICKS: u32 = 20;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Signs of life of each lease, and when the last was seen.
    seen: BTreeMap<u64, (u64, Time)>,
    /// Ticks in which no lease ends.
    grace: u32,
    /// The last tick came late, too: where all do, time goes on slowly, and leases end yet.
    was_still: bool,
}

impl Silence {
    /// It leads no more.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    /// A tick has passed, and came so late. `is_stalled`: nothing could be written in it.
    pub(super) fn passed(&mut self, late: Duration, is_stalled: bool, now: Time) {
        let still = match is_stalled {
            true => late + TICK,
            false if late > STILL => late,
            false => Duration::ZERO,
        };
        let is_still = !still.is_zero();
        if is_still {
            for (_, seen) in self.seen.values_mut() {
                *seen = now.min(*seen + still);
            }
        }
        self.grace = match is_stalled || is_still && !self.was_still {
            true => GRACE_TICKS,
            false => self.grace.saturating_sub(1),
        };
        self.was_still = is_still;
    }

    /// What ends the leases whose time is over.
    pub(super) fn ended(&mut self, leases: &BTreeMap<u64, Lease>, now: Time) -> Vec<Command> {
        self.seen.retain(|lease, _| leases.contains_key(lease));
        let mut ended = Vec::new();
        for (&lease, &Lease { ttl, renewals }) in leases {
            let seen = self.seen.entry(lease).or_insert((renewals, now));
            let silent = now.since(seen.1);
            if seen.0 != renewals {
                *seen = (renewals, now);
            } else if self.grace == 0 && silent >= Duration::from_millis(ttl) {
                // Where this gets lost, it is said again after as long.
                seen.1 = now;
                let renewals = Some(renewals);
                ended.push(Command::End { lease, renewals });
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(2);

    /// How long a lease lives that gives no sign, where each tick comes so late; and one comes
    /// later.
    fn lives(late: Duration, once: Duration) -> Duration {
        let lease = Lease {
            ttl: TTL.as_millis() as u64,
            renewals: 0,
        };
        let leases = BTreeMap::from([(1, lease)]);
        let (mut silence, mut now) = (Silence::default(), Time::ZERO);
        for tick in 0..1000 {
            if !silence.ended(&leases, now).is_empty() {
                return now.since(Time::ZERO);
            }
            let late = if tick == 5 { late + once } else { late };
            now += TICK + late;
            silence.passed(late, false, now);
        }
        panic!("it lives for ever");
    }

    #[test]
    fn a_lease_ends_in_time_and_a_standstill_does_not_count() {
        assert_eq!(lives(Duration::ZERO, Duration::ZERO), TTL);
        let still = Duration::from_secs(10);
        assert_eq!(lives(Duration::ZERO, still), TTL + still);
        // A disk that is always slow, but not so slow that signs are missed; and one that is.
        let slow = Duration::from_millis(150);
        assert_eq!(lives(slow, Duration::ZERO), TTL);
        assert!(lives(Duration::from_secs(1), Duration::ZERO) < Duration::from_secs(60));
    }

    #[test]
    fn what_could_not_be_written_does_not_count_and_signs_have_a_while_to_come() {
        let lease = Lease {
            ttl: 1000,
            renewals: 0,
        };
        let leases = BTreeMap::from([(1, lease)]);
        let (mut silence, mut now) = (Silence::default(), Time::ZERO);
        assert!(silence.ended(&leases, now).is_empty());
        // Its time was nearly over.
        now += Duration::from_millis(950);
        for _ in 0..100 {
            now += TICK;
            silence.passed(Duration::ZERO, true, now);
        }
        for _ in 0..GRACE_TICKS {
            assert!(silence.ended(&leases, now).is_empty());
            now += TICK;
            silence.passed(Duration::ZERO, false, now);
        }
        assert_eq!(silence.ended(&leases, now).len(), 1);
    }
}
