//! Which leases have given no sign of life for too long. The leader alone counts, from when it
//! began to lead or saw the last sign of life in the log: so a lease that gives signs in time is
//! never ended, and one that gives none is ended some time after. While this node stood still, or
//! could not write, it could see none, and that time counts for nobody: signs that wait at other
//! nodes, which may have stood still with it, have a while to come.

use crate::consensus::keyspace::{Command, Lease};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after the node stood still no lease ends: some rounds between nodes.
const GRACE: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Signs of life of each lease, and when the last was seen.
    seen: BTreeMap<u64, (u64, Time)>,
    /// No lease ends before.
    none_until: Time,
}

impl Silence {
    /// It leads no more.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Until now it could not see signs of life for so long.
    pub(super) fn stood_still(&mut self, long: Duration, now: Time) {
        for (_, seen) in self.seen.values_mut() {
            *seen = now.min(*seen + long);
        }
        self.none_until = now + GRACE;
    }

    /// What ends the leases whose time is over.
    pub(super) fn ended(&mut self, leases: &BTreeMap<u64, Lease>, now: Time) -> Vec<Command> {
        self.seen.retain(|lease, _| leases.contains_key(lease));
        let mut ended = Vec::new();
        for (&lease, &Lease { ttl, renewals }) in leases {
            let seen = self.seen.entry(lease).or_insert((renewals, now));
            if seen.0 != renewals {
                *seen = (renewals, now);
            } else if now >= self.none_until && now.since(seen.1) >= Duration::from_millis(ttl) {
                // Where this gets lost, it is said again after as long.
                seen.1 = now;
                let renewals = Some(renewals);
                ended.push(Command::End { lease, renewals });
            }
        }
        ended
    }
}
