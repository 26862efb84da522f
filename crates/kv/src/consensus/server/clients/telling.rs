//! What becomes of watched keys is told to those who watch them.

use super::backlog::Backlog;
use super::client::PIECE;
use super::{Asks, Clients};
use crate::consensus::keyspace::Change;
use rhythm_net::{Flushed, Port};
use std::collections::BTreeSet;

/// Bytes of what those who are behind are to be told yet.
pub(super) const BEHIND_MAX: usize = 64 << 20;

impl Clients {
    /// Something became of keys.
    pub(in super::super) fn changed(&mut self, changes: &[Change]) {
        if !self.watches.is_empty() {
            changes.iter().for_each(|change| self.backlog.push(change));
        }
    }

    /// Whether there is more to be told in the next turn.
    pub(in super::super) fn has_more_to_tell(&self) -> bool {
        self.backlog.has_more()
    }

    /// Tells of changes: what a turn allows, of what has become of keys until then.
    pub(in super::super) fn tell(&mut self, port: &mut dyn Port, node: &mut dyn Asks) {
        let mut told = BTreeSet::new();
        self.backlog.begin_turn();
        while let Some(place) = self.backlog.take_next() {
            let mut looks = 1;
            let Some(line) = self.backlog.look_at(place, 0) else {
                break;
            };
            for (id, from) in self.watches.of(line.key()) {
                looks += 1;
                let Some(client) = self.table.get_mut(id) else {
                    continue;
                };
                // Once, for whichever of its watches.
                if client.behind.is_some() || line.revision <= from.max(client.told) {
                    continue;
                }
                if client.may_be_told() && client.out.unsent() < PIECE {
                    client.told = line.revision;
                    client.out.push(line.text());
                    told.insert(id);
                } else {
                    client.behind = Some(place);
                }
            }
            self.backlog.look_at(place, looks);
        }
        for id in told {
            let Some(client) = self.table.get_mut(id) else {
                continue;
            };
            match client.out.flush(port, id) {
                Flushed::Gone => self.drop_client(port, id),
                Flushed::All if client.behind.is_some() => self.go_on(port, id, node),
                Flushed::All | Flushed::Some => {}
            }
        }
        self.leave_behind(port);
    }

    /// Forgets what all were told; where that leaves too much, those that are furthest behind are
    /// dropped.
    fn leave_behind(&mut self, port: &mut dyn Port) {
        let mut dropped = 0;
        loop {
            let behind = self.table.iter();
            let behind = behind.filter_map(|(id, client)| Some((client.behind?, id)));
            let last = behind.min();
            self.backlog
                .forget(last.map_or(u64::MAX, |(place, _)| place));
            if self.backlog.bytes() <= BEHIND_MAX {
                break;
            }
            match last {
                Some((_, id)) => {
                    dropped += 1;
                    self.drop_client(port, id);
                }
                // More becomes of keys than can be told at all.
                None => {
                    self.backlog = Backlog::default();
                    dropped += self.skipped(port);
                }
            }
        }
        if dropped > 0 {
            self.figures.gave_way.add(dropped);
            tracing::warn!(
                clients = dropped,
                "slow clients were dropped: they were too far behind with what they watch"
            );
        }
    }
}
