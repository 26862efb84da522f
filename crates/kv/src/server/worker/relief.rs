//! Connections that are closed by the server: for what they hold, for their silence.

use super::Worker;
use crate::shared::{Counter, Settings};
use rhythm_net::{Port, Time};
use std::time::Duration;

/// How often silent connections are looked for, if they are.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Connections that are closed at once; the others' turn comes before there are more.
pub(super) const CLOSED_MAX: usize = 32;
/// Connections that are looked at at once to find those that have not moved for longest.
const LOOKED_MAX: u32 = 4096;

/// What connections may hold of the memory for items, where that has long values above all (a
/// fraction).
const HELD_SHARE: usize = 4;

/// What a thread's connections may hold in any case: a value under way, whole or nearly so, and
/// another connection's answer.
pub(in crate::server) fn held_least(settings: &Settings) -> usize {
    2 * settings.item_max as usize
}

impl Worker {
    /// What all connections may hold now. Long values stay in memory until who asked for them has
    /// taken them: where such values have most of it, a share of it is all.
    pub(super) fn held_max(&self) -> usize {
        let (store, settings) = (&self.shared.store, &self.shared.settings);
        match store.is_mostly_large() {
            true => {
                let share = store.memory() / HELD_SHARE / settings.threads;
                self.held_most.min(share.max(held_least(settings)))
            }
            false => self.held_most,
        }
    }

    /// Where all connections hold too much, drops those that have not moved for longest, of so many
    /// that are looked at, until it is somewhat less. If that takes more it goes on in the next
    /// turn.
    pub(super) fn relieve_if_needed(&mut self, port: &mut dyn Port, now: Time) {
        let held_max = self.held_max();
        if self.held > held_max {
            self.relieve(port, held_max, now);
        }
    }

    #[cold]
    fn relieve(&mut self, port: &mut dyn Port, held_max: usize, now: Time) {
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
        let enough = held_max - held_max / 8;
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
}
