//! What `raft` has ready: it is written, then told, then executed.
//!
//! ```text
//!   ready --> messages that may go at once --> journal, synced --> messages that wait for that
//!                                                 |                entries agreed on: executed
//!                                                 v fails
//!                                              Stalled: tried again; nothing goes on meanwhile
//! ```

use super::Node;
use super::request::{Answer, Effects, EndError};
use super::underway::{AGAIN_TICKS, Stalled, Underway};
use crate::consensus::journal::{Disk, Unwritten};
use crate::consensus::keyspace::{Batch, Keyspace};
use crate::consensus::wire;
use raft::eraftpb::{Entry, Message, Snapshot};
use raft::{ProgressState, Ready, SnapshotStatus, Storage};
use rhythm_net::Time;
use std::time::Duration;

/// How long after a write that failed the next is tried.
const AGAIN: Duration = Duration::from_millis(500);
/// Bytes of entries that are kept before what is summed up, for nodes that are a bit behind.
const KEPT_BYTES: usize = 1 << 20;
/// How long after the journal could not be written anew that is tried again.
const SUM_UP_TICKS: u64 = 40;
/// A snapshot that has had no effect after so many ticks is sent again.
const SNAPSHOT_TICKS: u64 = 5 * AGAIN_TICKS;

impl<D: Disk> Node<D> {
    /// Deals with what is ready; false: with nothing.
    pub(super) fn take_ready(&mut self, now: Time, out: &mut Effects) -> Result<bool, EndError> {
        let mut ready = match self.stalled.take() {
            Some(stalled) if now < stalled.again_at => {
                self.stalled = Some(stalled);
                return Ok(false);
            }
            Some(stalled) => stalled.ready,
            None if !self.raft.has_ready() => return Ok(false),
            None => self.raft.ready(),
        };
        self.say(ready.take_messages(), out);
        match self.write(&ready) {
            Ok(()) => {}
            Err(Unwritten::Ever(error)) => return Err(EndError::Unwritten(error)),
            Err(Unwritten::Yet(error)) => {
                tracing::error!(%error, "the journal cannot be written; it is tried again");
                let again_at = now + AGAIN;
                self.stalled = Some(Stalled { ready, again_at });
                return Ok(false);
            }
        }
        for read in ready.take_read_states() {
            self.led(&read.request_ctx, read.index);
        }
        self.take_snapshot(ready.snapshot(), out)?;
        let store = self.raft.mut_store();
        store.append(ready.entries());
        if let Some(state) = ready.hs() {
            store.state = state.clone();
        }
        self.say(ready.take_persisted_messages(), out);
        self.execute(ready.take_committed_entries(), out)?;
        let mut light = self.raft.advance(ready);
        if let Some(commit) = light.commit_index() {
            self.raft.mut_store().state.commit = commit;
        }
        self.say(light.take_messages(), out);
        self.execute(light.take_committed_entries(), out)?;
        self.raft.advance_apply();
        Ok(true)
    }

    fn say(&self, messages: Vec<Message>, out: &mut Effects) {
        for message in messages {
            let frame = wire::encode(self.options.digest, &message);
            out.frames.push((message.to, frame));
        }
    }

    fn write(&mut self, ready: &Ready) -> Result<(), Unwritten> {
        let store = self.raft.store();
        let state = ready.hs().unwrap_or(&store.state);
        if !ready.snapshot().is_empty() {
            let mut log = store.clone();
            log.state = state.clone();
            log.restore(ready.snapshot().clone());
            log.append(ready.entries());
            self.journal.replace(self.life, &log)
        } else if ready.must_sync() {
            self.journal.append(state, ready.entries())
        } else {
            Ok(())
        }
    }

    /// Takes over what another node is further.
    fn take_snapshot(&mut self, snapshot: &Snapshot, out: &mut Effects) -> Result<(), EndError> {
        if snapshot.is_empty() {
            return Ok(());
        }
        let Some(keyspace) = Keyspace::from_snapshot(&snapshot.data) else {
            return Err(EndError::Unknown("another node's snapshot".to_owned()));
        };
        self.keyspace = keyspace;
        self.applied = snapshot.get_metadata().index;
        self.raft.mut_store().restore(snapshot.clone());
        out.skipped = true;
        // What is on its way may be executed in it, and nobody knows with what outcome.
        let (id, life) = (self.options.id, self.life);
        let is_in_it =
            |underway: &mut Underway| (self.keyspace).has_executed(id, (life, underway.number));
        if let Some(underway) = self.underway.take_if(is_in_it) {
            let asked = underway.asked.into_iter().filter_map(|(ticket, _)| ticket);
            out.answers
                .extend(asked.map(|ticket| (ticket, Answer::PerhapsDone)));
        }
        Ok(())
    }

    fn execute(&mut self, entries: Vec<Entry>, out: &mut Effects) -> Result<(), EndError> {
        for entry in entries {
            debug_assert_eq!(entry.index, self.applied + 1);
            self.applied = entry.index;
            self.executed += 1;
            // A leader begins with an entry that says nothing.
            if entry.data.is_empty() {
                continue;
            }
            // To leave it out here alone would make this node differ from the others.
            let batch = Batch::decode(&entry.data).ok_or_else(|| {
                let at = entry.index;
                EndError::Unknown(format!("entry {at} of the log"))
            })?;
            let (origin, (life, number)) = (batch.origin, batch.number);
            let outcomes = self.keyspace.execute(batch, &mut out.changes);
            let is_own = |of: &mut Underway| {
                origin == self.options.id && life == self.life && number == of.number
            };
            let Some(underway) = self.underway.take_if(is_own) else {
                continue;
            };
            // A node of this name lived later, by its clock: it was not executed, and is said again
            // as of a life that is later yet (`Node::outlive`).
            let Some(outcomes) = outcomes else {
                self.underway = Some(underway);
                continue;
            };
            let asked = underway.asked.into_iter().zip(outcomes);
            out.answers
                .extend(asked.filter_map(|((ticket, _), outcome)| {
                    ticket.map(|ticket| (ticket, Answer::Done(outcome)))
                }));
        }
        Ok(())
    }

    /// Has the keyspace take the place of the log, where the journal has grown.
    pub(super) fn sum_up(&mut self) -> Result<(), EndError> {
        let store = self.raft.store();
        let last = store.snapshot.get_metadata().index;
        let kept_bytes = KEPT_BYTES.min(self.options.journal_bytes as usize);
        // A new one is shorter, where there is no room.
        let is_in_need = self.journal.grown() > 2 * kept_bytes as u64 && !self.journal.has_room();
        let is_due = self.journal.is_long(self.options.journal_bytes) || is_in_need;
        if !is_due || self.applied <= last || self.stalled.is_some() || self.ticks < self.sum_up_at
        {
            return Ok(());
        }
        let Ok(term) = store.term(self.applied) else {
            return Ok(());
        };
        let mut log = store.clone();
        let mut snapshot = Snapshot {
            data: self.keyspace.snapshot().into(),
            ..Snapshot::default()
        };
        let of = snapshot.mut_metadata();
        (of.index, of.term) = (self.applied, term);
        of.set_conf_state(log.voters.clone());
        log.snapshot = snapshot;
        log.state.commit = log.state.commit.max(self.applied);
        let before = log.entries.iter().rev();
        let mut kept = 0;
        let mut forgotten = before
            .filter(|entry| entry.index <= self.applied)
            .skip_while(|entry| {
                kept += entry.data.len();
                kept <= kept_bytes
            });
        let forgotten = forgotten.next().map(|entry| entry.index);
        if let Some(index) = forgotten {
            log.forget(index);
        }
        match self.journal.replace(self.life, &log) {
            Ok(()) => *self.raft.mut_store() = log,
            // The journal stays as it is, and grows until it can.
            Err(Unwritten::Yet(error)) => {
                self.sum_up_at = self.ticks + SUM_UP_TICKS;
                tracing::error!(%error, "the journal cannot be written anew");
            }
            Err(Unwritten::Ever(error)) => return Err(EndError::Unwritten(error)),
        }
        Ok(())
    }

    /// Nobody says whether a snapshot came: where it had no effect for a while, it is lost.
    pub(super) fn resend_snapshots(&mut self) {
        if !self.ticks.is_multiple_of(SNAPSHOT_TICKS) {
            return;
        }
        let raft = &mut self.raft;
        let waiting: Vec<u64> = (raft.raft.prs().iter())
            .filter(|(_, progress)| progress.state == ProgressState::Snapshot)
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            raft.report_snapshot(id, SnapshotStatus::Failure);
        }
    }
}
