//! What a node must not forget, in one file: a record for each time that something was written.
//!
//! ```text
//!   | magic | salt | whose | base (all there was) |     entries     |     life     |
//!   a block                                        another           another
//! ```
//!
//! A record is synced before the next is written. So where the last one is not whole, nobody was
//! told of it, and it is cut off; where one follows, it was synced and is damaged now, and the node
//! does not start. When the file has grown, another takes its place in one step, whose base is all
//! there is. A node that finds that it has forgotten what it confirmed writes that, too, and does
//! not start again.

mod folder;
mod log;
mod records;

pub(super) use folder::SyncTimes;
pub use folder::{Folder, FolderError};
pub(super) use log::Log;

use super::wire;
use crate::bytes::{Put, Reader};
use raft::eraftpb::{ConfState, Entry, HardState};
use records::{Form, Records, fill};
use std::io;

/// What files begin with, the latest last.
const FILE_MAGICS: [(&[u8; 8], Form); 2] =
    [(b"RhyKeys2", Form::Packed), (b"RhyKeys3", Form::Blocks)];
const FILE_MAGIC: &[u8; 8] = FILE_MAGICS[1].0;
/// Bytes in front of the first record.
const FILE_HEAD: usize = 24;
const APPEND: u8 = 0;
const LIFE: u8 = 1;
const BASE: u8 = 2;
const FORGOTTEN: u8 = 3;
/// Records from which on the file is written anew, however short they are: 64 MiB of blocks.
const RECORDS_MAX: u64 = 16 << 10;

/// Whose journal begins with these bytes: which node's, of which keyspace.
pub(super) fn whose(bytes: &[u8]) -> Option<u64> {
    let (head, _) = bytes.split_at_checked(FILE_HEAD)?;
    form(head)?;
    head.last_chunk().map(|number| u64::from_le_bytes(*number))
}

fn form(head: &[u8]) -> Option<Form> {
    let mut forms = FILE_MAGICS.into_iter();
    let found = forms.find(|(magic, _)| head.starts_with(*magic));
    found.map(|(_, form)| form)
}

/// Where the journal is.
pub trait Disk {
    /// Writes at a place: at the end, or where an attempt before failed, or the same bytes as are
    /// there, and others behind them. What is behind all that goes.
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
    records: Records,
    whose: u64,
    /// The number of the next record, and where it goes.
    number: u64,
    end: u64,
    /// Where the base ended, and bytes of the records behind it, without what fills their blocks.
    base_end: u64,
    written: u64,
    /// The last record that was read behind the base, and where it is.
    last: Option<(u64, Vec<u8>)>,
}

/// What was in a journal.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) log: Log,
    /// The how-manieth life of the node the last one was.
    pub(super) life: u64,
    /// It was found to lack what the node had confirmed.
    pub(super) has_forgotten: bool,
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
            has_forgotten: false,
        };
        let form = Form::Blocks;
        let mut journal = Journal {
            disk,
            records: Records { form, salt },
            whose,
            number: 0,
            end: FILE_HEAD as u64,
            base_end: 0,
            written: 0,
            last: None,
        };
        if bytes.is_empty() {
            return Ok((journal, recovered));
        }
        let form = self::form(bytes).filter(|_| self::whose(bytes) == Some(whose));
        let salt = bytes.get(8..16).and_then(<[u8]>::first_chunk);
        let Some((form, salt)) = form.zip(salt) else {
            return Err(Damaged { at: 0 });
        };
        let salt = u64::from_le_bytes(*salt);
        journal.records = Records { form, salt };
        let (mut at, mut last) = (FILE_HEAD, None);
        while let Some((said, next)) = journal.records.decode(bytes, at, journal.number) {
            let taken = recovered.take(said, journal.number == 0);
            taken.ok_or(Damaged { at: at as u64 })?;
            match journal.number {
                0 => journal.base_end = next as u64,
                _ => last = Some((at, said)),
            }
            journal.number += 1;
            at = next;
        }
        journal.end = at as u64;
        // Of the base, which was in its place in one step, nothing can be missing.
        if journal.number == 0 || journal.records.has_later(bytes, at, journal.number) {
            return Err(Damaged { at: journal.end });
        }
        journal.last = last.map(|(at, said)| (at as u64, said.to_vec()));
        Ok((journal, recovered))
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
    /// say that it is on the disk. That can be so of the last record alone: without room for all,
    /// that one is written again where it is, and what is there goes on.
    pub(super) fn begin(&mut self, life: u64, log: &Log) -> Result<(), Unwritten> {
        let last = self.last.take();
        match self.replace(life, log) {
            Err(Unwritten::Yet(error)) if self.number > 0 => match self.records.form {
                Form::Packed => Err(Unwritten::Yet(io::Error::other(format!(
                    "it is of an older release, and there is no room to write it anew: {error}"
                )))),
                Form::Blocks => self.go_on(life, last),
            },
            begun => begun,
        }
    }

    /// Writes the last record again, and behind it, when that is synced, that the node lives once
    /// more.
    fn go_on(&mut self, life: u64, last: Option<(u64, Vec<u8>)>) -> Result<(), Unwritten> {
        if let Some((at, said)) = last {
            let mut record = self.records.encode(self.number - 1, &said);
            fill(&mut record);
            self.disk.write(at, &record)?;
            self.disk.sync()?;
        }
        self.begin_life(life)
    }

    /// Writes that the node lives once more.
    pub(super) fn begin_life(&mut self, life: u64) -> Result<(), Unwritten> {
        self.write(&self::life(life))
    }

    /// Writes that it lacks what the node confirmed: no other life of the node begins from it.
    pub(super) fn forget(&mut self) -> Result<(), Unwritten> {
        self.write(&[FORGOTTEN])
    }

    fn write(&mut self, said: &[u8]) -> Result<(), Unwritten> {
        let mut record = self.records.encode(self.number, said);
        let written = record.len() as u64;
        fill(&mut record);
        self.disk.write(self.end, &record)?;
        self.disk.sync()?;
        self.number += 1;
        self.end += record.len() as u64;
        self.written += written;
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
        let records = Records {
            form: Form::Blocks,
            ..self.records
        };
        let mut out = FILE_MAGIC.to_vec();
        out.put_u64(records.salt);
        out.put_u64(self.whose);
        out.extend(records.encode(0, &said));
        fill(&mut out);
        self.disk.replace(&out)?;
        self.records = records;
        (self.number, self.end, self.written) = (1, out.len() as u64, 0);
        self.base_end = self.end;
        Ok(())
    }

    /// Whether what was written since the base is more than so many bytes, or too many records.
    pub(super) fn is_long(&self, bytes: u64) -> bool {
        self.written > bytes || self.number > RECORDS_MAX
    }

    /// Bytes of the disk that have been taken since the base.
    pub(super) fn grown(&self) -> u64 {
        self.end - self.base_end.min(self.end)
    }

    pub(super) fn has_room(&mut self) -> bool {
        self.disk.has_room()
    }
}

fn life(life: u64) -> Vec<u8> {
    let mut said = vec![LIFE];
    said.put_u64(life);
    said
}

impl Recovered {
    /// Takes what a record says; nothing: it cannot have been written so.
    fn take(&mut self, said: &[u8], is_first: bool) -> Option<()> {
        let mut reader = Reader(said);
        let kind = reader.u8()?;
        if is_first != (kind == BASE) {
            return None;
        }
        match kind {
            APPEND => {
                self.log.state = wire::take_state(&mut reader)?;
                self.log.append(&wire::take_entries(&mut reader)?);
            }
            LIFE => self.life = reader.u64()?,
            FORGOTTEN => self.has_forgotten = true,
            BASE => {
                self.life = reader.u64()?;
                self.log.state = wire::take_state(&mut reader)?;
                self.log.snapshot = wire::take_snapshot(&mut reader, &self.log.voters)?;
                self.log.before = (reader.u64()?, reader.u64()?);
                self.log.entries = wire::take_entries(&mut reader)?;
            }
            _ => return None,
        }
        reader.0.is_empty().then_some(())
    }
}

#[cfg(test)]
pub(super) mod tests;
