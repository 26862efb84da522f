//! Which leases have given no sign of life for too long. The leader alone counts, from when it
//! began to lead or saw the last sign of life in the log: so a lease that gives signs in time is
//! never ended, and one that gives none is ended some time after.

use crate::consensus::keyspace::{Command, Lease};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Signs of life of each lease, and when the last was seen.
#[derive(Debug, Default)]
pub(super) struct Silence(BTreeMap<u64, (u64, Time)>);

impl Silence {
    /// It leads no more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What ends the leases whose time is over.
    pub(super) fn ended(&mut self, leases: &BTreeMap<u64, Lease>, now: Time) -> Vec<Command> {
        self.0.retain(|lease, _| leases.contains_key(lease));
        let mut ended = Vec::new();
        for (&lease, &Lease { ttl, renewals }) in leases {
            let seen = self.0.entry(lease).or_insert((renewals, now));
            if seen.0 != renewals {
                *seen = (renewals, now);
            } else if now.since(seen.1) >= Duration::from_millis(ttl) {
                // Where this gets lost, it is said again after as long.
                seen.1 = now;
                let renewals = Some(renewals);
                ended.push(Command::End { lease, renewals });
            }
        }
        ended
    }
}
