//! Connections that are closed by the server: for what they hold, for their silence, at its end.

use super::Worker;
use crate::shared::Counter;
use rhythm_net::{Port, Time};
use std::time::Duration;

/// How often silent connections are looked for, if they are.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Silent connections that are closed in one turn.
const SWEPT_MAX: usize = 32;

impl Worker {
    /// Where all connections hold too much, drops those that have not moved for longest, until it
    /// is somewhat less.
    pub(super) fn relieve_if_needed(&mut self, port: &mut dyn Port, now: Time) {
        if self.held > self.held_max {
            self.relieve(port, now);
        }
    }

    #[cold]
    fn relieve(&mut self, port: &mut dyn Port, now: Time) {
        let holding = self.clients.iter().filter(|(_, client)| client.held > 0);
        let mut holding: Vec<_> = holding.map(|(id, client)| (client.moved, id)).collect();
        holding.sort_by_key(|(moved, _)| *moved);
        let enough = self.held_max - self.held_max / 8;
        let mut count = 0;
        for (_, id) in holding {
            if self.held <= enough {
                break;
            }
            port.abort(id);
            self.forget(id);
            count += 1;
        }
        if let Some(connections) = self.dropped.tell(count, now) {
            tracing::warn!(
                connections,
                held = self.held,
                "slow connections were dropped: they held too much"
            );
        }
    }

    /// Closes connections that were silent for too long, and says when to look again.
    pub(super) fn sweep(&mut self, port: &mut dyn Port, timeout: Duration, now: Time) -> Time {
        let silent = self
            .clients
            .iter()
            .filter(|(_, client)| now.since(client.moved) >= timeout);
        let silent: Vec<_> = silent.map(|(id, _)| id).take(SWEPT_MAX).collect();
        for &id in &silent {
            port.close(id);
            self.forget(id);
            self.count(Counter::IdleKicks, 1);
        }
        match silent.len() < SWEPT_MAX {
            true => now + SWEEP_EVERY,
            // There may be more: the next turn has some of them.
            false => now,
        }
    }

    /// Closes the connections that owe nothing.
    pub(super) fn close_idle(&mut self, port: &mut dyn Port) {
        let idle = self
            .clients
            .iter()
            .filter(|(_, client)| client.out.is_empty());
        let idle: Vec<_> = idle.map(|(id, _)| id).collect();
        for id in idle {
            port.close(id);
            self.forget(id);
        }
    }
}
