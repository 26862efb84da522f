//! The log as `raft` reads it: in memory, as much of it as the journal has.

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::util::limit_size;
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};

/// What was written to the journal.
#[derive(Clone, Debug, Default)]
pub(in crate::consensus) struct Log {
    /// Term, vote, and up to where all is agreed on.
    pub(in crate::consensus) state: HardState,
    /// Who has a vote: all nodes, always.
    pub(in crate::consensus) voters: ConfState,
    /// Instead of what was before.
    pub(in crate::consensus) snapshot: Snapshot,
    /// Index and term of the entry in front of the first.
    pub(in crate::consensus) before: (u64, u64),
    pub(in crate::consensus) entries: Vec<Entry>,
}

impl Log {
    /// Behind the last entry.
    fn end(&self) -> u64 {
        self.before.0 + 1 + self.entries.len() as u64
    }

    /// Appends entries; those that are there from the first one's index on give way to them.
    pub(in crate::consensus) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else {
            return;
        };
        debug_assert!(self.before.0 < first.index && first.index <= self.end());
        self.entries
            .truncate((first.index - self.before.0 - 1) as usize);
        self.entries.extend_from_slice(entries);
    }

    /// Takes the place of all there is.
    pub(in crate::consensus) fn restore(&mut self, snapshot: Snapshot) {
        let of = snapshot.get_metadata();
        self.before = (of.index, of.term);
        self.state.commit = self.state.commit.max(of.index);
        self.entries.clear();
        self.snapshot = snapshot;
    }

    /// Forgets entries up to `index`.
    pub(in crate::consensus) fn forget(&mut self, index: u64) {
        let Ok(term) = self.term(index) else {
            return;
        };
        let count = (index - self.before.0) as usize;
        self.entries.drain(..count);
        self.before = (index, term);
    }
}

impl Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.state.clone(), self.voters.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.before.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        if high > self.end() {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let first = self.before.0 + 1;
        let mut entries = self.entries[(low - first) as usize..(high - first) as usize].to_vec();
        limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let of = self.snapshot.get_metadata();
        match index {
            _ if index == self.before.0 => Ok(self.before.1),
            _ if index == of.index => Ok(of.term),
            _ if index < self.before.0 => Err(Error::Store(StorageError::Compacted)),
            _ => (self.entries.get((index - self.before.0 - 1) as usize))
                .map(|entry| entry.term)
                .ok_or(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.before.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.end() - 1)
    }

    fn snapshot(&self, request_index: u64, _: u64) -> raft::Result<Snapshot> {
        let index = self.snapshot.get_metadata().index;
        match index > 0 && index >= request_index {
            true => Ok(self.snapshot.clone()),
            false => Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable)),
        }
    }
}
