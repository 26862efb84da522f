//! What a node must not forget, in one file: a record for each time that something was written.
//!
//! ```text
//!   | magic | salt | whose |  record: | magic | length | number | checksum | ... |  record ...
//!                             the first: a base (all there was); then: entries, lives
//! ```
//!
//! A record is synced before the next is written. So where the last one is not whole, nobody was
//! told of it, and it is cut off; where a good one follows, it was synced and is damaged now, and
//! the node does not start. When the file has grown, another takes its place in one step, whose
//! base is all there is. The checksum's key is in the file, so no value that a client chooses looks
//! like a record.

mod folder;
mod log;

pub(super) use folder::SyncTimes;
pub use folder::{Folder, FolderError};
pub(super) use log::Log;

use super::wire;
use super::wire::bytes::{Put, Taker};
use crate::checksum::checksum;
use memchr::memmem;
use raft::eraftpb::{ConfState, Entry, HardState};
use std::io;

const FILE_MAGIC: &[u8; 8] = b"RhyKeys2";
const RECORD_MAGIC: &[u8; 4] = b"RKr\n";
/// Bytes in front of the first record, and in front of what a record says.
const FILE_HEAD: usize = 24;
const RECORD_HEAD: usize = 24;
const APPEND: u8 = 0;
const LIFE: u8 = 1;
const BASE: u8 = 2;

/// Whose journal begins with these bytes: which node's, of which keyspace.
pub(super) fn whose(bytes: &[u8]) -> Option<u64> {
    let head = bytes.get(..FILE_HEAD)?;
    let number = head.strip_prefix(FILE_MAGIC)?.last_chunk()?;
    Some(u64::from_le_bytes(*number))
}

/// Where the journal is.
pub trait Disk {
    /// Writes at a place: at the end, or where an attempt before failed.
    ///
    /// # Errors
    /// The bytes may be there in part.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Unwritten>;

    /// What was written is there from now on, whatever happens.
    ///
    /// # Errors
    /// Nobody knows what is there.
    fn sync(&mut self) -> Result<(), Unwritten>;

    /// Has these bytes take the place of the whole journal: whatever happens, it is all the old or
    /// all the new.
    ///
    /// # Errors
    /// Where it may be tried again, the old is there.
    fn replace(&mut self, bytes: &[u8]) -> Result<(), Unwritten>;

    /// Whether there will be room for what is written next.
    fn has_room(&mut self) -> bool;
}

/// A journal that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the journal is damaged at byte {at}: what this node confirmed to others is lost, so it may \
     not go on; docs/kv-keyspace.md says how to replace a node whose folder is lost"
)]
pub struct Damaged {
    /// Where.
    pub at: u64,
}

/// Why something is not in the journal.
#[derive(Debug)]
pub enum Unwritten {
    /// It may be tried again.
    Yet(io::Error),
    /// The node has to end: nobody knows what is there.
    Ever(io::Error),
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Journal<D> {
    disk: D,
    salt: u64,
    whose: u64,
    /// The number of the next record, and where it goes.
    number: u64,
    end: u64,
    /// Where the base ended.
    base_end: u64,
}

/// What was in a journal.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) log: Log,
    /// The how-manieth life of the node the last one was.
    pub(super) life: u64,
}

impl<D: Disk> Journal<D> {
    /// Reads what is there, of nodes of whom all have a vote, or begins with nothing. `salt` and
    /// `whose` are for a new file.
    pub(super) fn open(
        disk: D,
        bytes: &[u8],
        salt: u64,
        whose: u64,
        voters: &ConfState,
    ) -> Result<(Journal<D>, Recovered), Damaged> {
        let mut recovered = Recovered {
            log: Log {
                voters: voters.clone(),
                ..Log::default()
            },
            life: 0,
        };
        let mut journal = Journal {
            disk,
            salt,
            whose,
            number: 0,
            end: FILE_HEAD as u64,
            base_end: 0,
        };
        if bytes.is_empty() {
            return Ok((journal, recovered));
        }
        let Some((head, mut rest)) = bytes
            .split_at_checked(FILE_HEAD)
            .filter(|(head, _)| self::whose(head) == Some(whose))
        else {
            return Err(Damaged { at: 0 });
        };
        journal.salt = u64::from_le_bytes(head[8..16].try_into().unwrap_or_default());
        while let Some((said, behind)) = journal.record(rest) {
            let at = journal.end;
            let taken = recovered.take(said, journal.number == 0);
            taken.ok_or(Damaged { at })?;
            journal.end += (rest.len() - behind.len()) as u64;
            if journal.number == 0 {
                journal.base_end = journal.end;
            }
            journal.number += 1;
            rest = behind;
        }
        // Of the base, which was in its place in one step, nothing can be missing.
        let mut later = memmem::find_iter(rest, RECORD_MAGIC);
        if journal.number == 0 || later.any(|at| journal.is_later(&rest[at..])) {
            return Err(Damaged { at: journal.end });
        }
        Ok((journal, recovered))
    }

    /// What the record says that these bytes begin with, if it is the next, and what follows it.
    fn record<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let (number, said, behind) = self.any_record(bytes)?;
        (number == self.number).then_some((said, behind))
    }

    fn is_later(&self, bytes: &[u8]) -> bool {
        self.any_record(bytes)
            .is_some_and(|(number, ..)| number > self.number)
    }

    fn any_record<'a>(&self, bytes: &'a [u8]) -> Option<(u64, &'a [u8], &'a [u8])> {
        let mut taker = Taker(bytes);
        if taker.slice(RECORD_MAGIC.len())? != RECORD_MAGIC {
            return None;
        }
        let (length, number, sum) = (taker.u32()?, taker.u64()?, taker.u64()?);
        let said = taker.slice(length as usize)?;
        (self.sum(number, said) == sum).then_some((number, said, taker.0))
    }

    fn sum(&self, number: u64, said: &[u8]) -> u64 {
        checksum([self.salt ^ number, 0], said)
    }

    fn frame(&self, number: u64, said: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_HEAD + said.len());
        out.extend_from_slice(RECORD_MAGIC);
        out.put_u32(said.len() as u32);
        out.put_u64(number);
        out.put_u64(self.sum(number, said));
        out.extend_from_slice(said);
        out
    }

    /// Writes entries, which take the place of those from the first one's index on, and the state.
    pub(super) fn append(&mut self, state: &HardState, entries: &[Entry]) -> Result<(), Unwritten> {
        let mut said = vec![APPEND];
        wire::put_state(&mut said, state);
        wire::put_entries(&mut said, entries);
        self.write(&said)
    }

    /// Begins the life of a process: writes anew all that was read. Where a process before ended as
    /// the disk failed, what is read may be in the system's memory alone, and another sync would
    /// say that it is on the disk. Without room for that, what is there goes on.
    pub(super) fn begin(&mut self, life: u64, log: &Log) -> Result<(), Unwritten> {
        match self.replace(life, log) {
            Err(Unwritten::Yet(_)) if self.number > 0 => self.begin_life(life),
            begun => begun,
        }
    }

    /// Writes that the node lives once more.
    pub(super) fn begin_life(&mut self, life: u64) -> Result<(), Unwritten> {
        let mut said = vec![LIFE];
        said.put_u64(life);
        self.write(&said)
    }

    fn write(&mut self, said: &[u8]) -> Result<(), Unwritten> {
        let record = self.frame(self.number, said);
        self.disk.write(self.end, &record)?;
        self.disk.sync()?;
        self.number += 1;
        self.end += record.len() as u64;
        Ok(())
    }

    /// Has all there is take the place of what is written.
    pub(super) fn replace(&mut self, life: u64, log: &Log) -> Result<(), Unwritten> {
        let mut said = vec![BASE];
        said.put_u64(life);
        wire::put_state(&mut said, &log.state);
        wire::put_snapshot(&mut said, &log.snapshot);
        said.put_u64(log.before.0);
        said.put_u64(log.before.1);
        wire::put_entries(&mut said, &log.entries);
        let mut out = FILE_MAGIC.to_vec();
        out.put_u64(self.salt);
        out.put_u64(self.whose);
        out.extend(self.frame(0, &said));
        self.disk.replace(&out)?;
        (self.number, self.end) = (1, out.len() as u64);
        self.base_end = self.end;
        Ok(())
    }

    /// Bytes that were written since the base.
    pub(super) fn grown(&self) -> u64 {
        self.end - self.base_end.min(self.end)
    }

    pub(super) fn has_room(&mut self) -> bool {
        self.disk.has_room()
    }
}

impl Recovered {
    /// Takes what a record says; nothing: it cannot have been written so.
    fn take(&mut self, said: &[u8], is_first: bool) -> Option<()> {
        let mut taker = Taker(said);
        let kind = taker.u8()?;
        if is_first != (kind == BASE) {
            return None;
        }
        match kind {
            APPEND => {
                self.log.state = wire::take_state(&mut taker)?;
                self.log.append(&wire::take_entries(&mut taker)?);
            }
            LIFE => self.life = taker.u64()?,
            BASE => {
                self.life = taker.u64()?;
                self.log.state = wire::take_state(&mut taker)?;
                self.log.snapshot = wire::take_snapshot(&mut taker, &self.log.voters)?;
                self.log.before = (taker.u64()?, taker.u64()?);
                self.log.entries = wire::take_entries(&mut taker)?;
            }
            _ => return None,
        }
        taker.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests;
