//! Which sessions have given no sign of life for too long. The leader alone counts, from when it
//! began to lead or saw the last sign of life in the log: so a session that gives signs in time is
//! never ended, and one that gives none is ended some time after.

use crate::consensus::command::Command;
use crate::consensus::keyspace::Session;
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Signs of life of each session, and when the last was seen.
#[derive(Debug, Default)]
pub(super) struct Leases(BTreeMap<u64, (u64, Time)>);

impl Leases {
    /// It leads no more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What ends the sessions whose time is over.
    pub(super) fn ended(&mut self, sessions: &BTreeMap<u64, Session>, now: Time) -> Vec<Command> {
        self.0.retain(|session, _| sessions.contains_key(session));
        let mut ended = Vec::new();
        for (&session, &Session { ttl, renewals }) in sessions {
            let seen = self.0.entry(session).or_insert((renewals, now));
            if seen.0 != renewals {
                *seen = (renewals, now);
            } else if now.since(seen.1) >= Duration::from_millis(ttl) {
                // Where this gets lost, it is said again after as long.
                seen.1 = now;
                let renewals = Some(renewals);
                ended.push(Command::End { session, renewals });
            }
        }
        ended
    }
}
