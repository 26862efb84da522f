//! How long a node waits for a leader, a leader for the others, and how one hands over.
//!
//! A follower that has not heard of a leader for [`TICKS`], and up to twice as many, asks for
//! votes. Who was a candidate twice, in vain, waits longer each time: then it is the network that
//! takes long, and votes that come when another term has begun are none.

use super::Node;
use super::elections::{CAMPAIGNS_SHORT, DOUBLED_MAX, TICKS};
use crate::checksum::checksum;
use crate::consensus::journal::Disk;
use raft::StateRole;
use raft::prelude::Progress;

impl<D: Disk> Node<D> {
    /// How long it waits for a leader: chosen from its seed, and not by `raft` from random numbers
    /// of the system, so that a run can be repeated.
    pub(super) fn choose_patience(&mut self) {
        let (raft, elections) = (&mut self.raft.raft, &mut self.elections);
        if raft.leader_id != 0 {
            elections.campaigns = 0;
        } else if raft.state == StateRole::Candidate && raft.term != elections.term {
            (elections.campaigns, elections.term) = (elections.campaigns + 1, raft.term);
        }
        let mut of = raft.term.to_le_bytes().to_vec();
        of.extend([raft.state as u8, self.options.id as u8]);
        of.extend(self.life.to_le_bytes());
        let chosen = checksum([self.options.seed, 0], &of) as usize % TICKS;
        let doubled = elections.campaigns.saturating_sub(CAMPAIGNS_SHORT);
        let patience = (TICKS + chosen) << doubled.min(DOUBLED_MAX);
        raft.set_randomized_election_timeout(patience);
    }

    /// A leader that hears of too few gives up, in `raft`, after [`TICKS`]; answers may take
    /// longer. Nothing that is read or confirmed depends on it.
    pub(super) fn keep_quorum(&mut self) {
        let is_there = |node| self.elections.is_there(node, self.ticks);
        for (id, progress) in self.raft.raft.mut_prs().iter_mut() {
            progress.recent_active |= is_there(*id);
        }
    }

    /// Has another node lead, of those that are there the one that is furthest.
    pub(super) fn hand_over(&mut self) {
        let raft = &self.raft.raft;
        if raft.lead_transferee.is_some() {
            return;
        }
        let is_there = |(id, _): &(&u64, &Progress)| {
            **id != self.options.id && self.elections.is_there(**id, self.ticks)
        };
        let others = raft.prs().iter().filter(is_there);
        let furthest = others.max_by_key(|(id, progress)| (progress.matched, **id));
        if let Some(id) = furthest.map(|(id, _)| *id) {
            self.raft.transfer_leader(id);
        }
    }
}
