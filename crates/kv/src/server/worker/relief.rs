//! Connections that are closed by the server: for what they hold, for their silence, at its end.

use super::Worker;
use crate::shared::Counter;
use rhythm_net::{Port, Time};
use std::time::Duration;

/// How often silent connections are looked for, if they are.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Connections that are closed at once; the others' turn comes before there are more.
const CLOSED_MAX: usize = 32;
/// Connections that are looked at at once to find those that have not moved for longest.
const LOOKED_MAX: u32 = 4096;

impl Worker {
    /// Where all connections hold too much, drops those that have not moved for longest, of so many
    /// that are looked at, until it is somewhat less. If that takes more it goes on in the next
    /// turn.
    pub(super) fn relieve_if_needed(&mut self, port: &mut dyn Port, now: Time) {
        if self.held > self.held_max {
            self.relieve(port, now);
        }
    }

    #[cold]
    fn relieve(&mut self, port: &mut dyn Port, now: Time) {
        let slots = self.clients.slots();
        let from = if self.relieve_from < slots {
            self.relieve_from
        } else {
            0
        };
        let until = slots.min(from.saturating_add(LOOKED_MAX));
        self.relieve_from = until;
        let mut holding = [(Time::NEVER, None); CLOSED_MAX];
        for id in (from..until).filter_map(|slot| self.clients.id_at(slot)) {
            let Some(client) = self.clients.get(id).filter(|client| client.counted > 0) else {
                continue;
            };
            // The last one is the one that moved last of those that may be dropped.
            if client.moved < holding[CLOSED_MAX - 1].0 {
                let place = holding.partition_point(|(moved, _)| *moved <= client.moved);
                holding[place..].rotate_right(1);
                holding[place] = (client.moved, Some(id));
            }
        }
        let enough = self.held_max - self.held_max / 8;
        let mut count = 0;
        for id in holding.into_iter().filter_map(|(_, id)| id) {
            if self.held <= enough {
                break;
            }
            port.abort(id);
            self.forget(id);
            self.count(Counter::GaveWay, 1);
            count += 1;
        }
        if count > 0
            && let Some(connections) = self.dropped.tell(count, now)
        {
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
        let silent: Vec<_> = silent.map(|(id, _)| id).take(CLOSED_MAX).collect();
        for &id in &silent {
            port.close(id);
            self.forget(id);
            self.count(Counter::IdleKicks, 1);
        }
        match silent.len() < CLOSED_MAX {
            true => now + SWEEP_EVERY,
            // There may be more: the next turn has some of them.
            false => now,
        }
    }

    /// Closes connections that owe nothing, and sees to it that it goes on if there may be more.
    pub(super) fn close_idle(&mut self, port: &mut dyn Port) {
        let idle = self
            .clients
            .iter()
            .filter(|(_, client)| client.owes_nothing());
        let idle: Vec<_> = idle.map(|(id, _)| id).take(CLOSED_MAX).collect();
        self.is_closing_idle = idle.len() == CLOSED_MAX;
        for id in idle {
            port.close(id);
            self.forget(id);
        }
    }
}
