//! A monitor's folder: its journal, and a lock, so that no two processes are one monitor.
//!
//! Room on the disk is taken ahead: while there is some left, loans can end, and what is to be lent
//! is refused already.

use super::journal::{self, Damaged, Tail};
use super::keeper::{Keeper, NotKept, Record, State};
use crate::loan::LoanId;
use rhythm_net::clock;
use rhythm_net::sparse::Sparse;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that are taken ahead of what is written; where there are fewer, half as many, and so on
/// down to these.
const AHEAD: u64 = 4 << 20;
const AHEAD_MIN: u64 = 64 << 10;
/// Bytes that a loan's end takes.
const END_BYTES: u64 = 48;
/// Bytes of the journal, beside what it began with, from which on it is written anew.
const ANEW: u64 = 1 << 20;

/// The name of a journal that is to take the other's place.
const NEW: &str = "journal.new";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another process uses it.
    #[error("{0}: another monitor uses it; say another --state, or stop that one")]
    InUse(PathBuf),
    /// What is in it.
    #[error("{0}: {1}")]
    Damaged(PathBuf, Damaged),
    /// The system.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
}

/// See the head of this file.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    journal: File,
    /// All that is in it, so that it can be written anew.
    state: State,
    tail: Tail,
    /// Where what it began with ended, and up to where room is taken.
    base: u64,
    taken: u64,
    /// What was taken ahead last.
    ahead: u64,
    /// Of lines about room.
    full: Sparse,
    /// Held as long as the folder is used.
    _lock: File,
}

impl Folder {
    /// Opens a folder, which is made if there is none; what is in it is in [`Folder::state`].
    ///
    /// # Errors
    /// It cannot be used.
    pub fn open(path: &Path) -> Result<Folder, FolderError> {
        let failed = |error| FolderError::System(path.to_owned(), error);
        fs::create_dir_all(path).map_err(failed)?;
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut bytes = Vec::new();
        match File::open(path.join("journal")) {
            Ok(mut journal) => {
                journal.read_to_end(&mut bytes).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bytes = journal::begin(&State::default(), salt()).0;
            }
            Err(error) => return Err(failed(error)),
        }
        let (state, _) = journal::read(&bytes)
            .map_err(|damaged| FolderError::Damaged(path.to_owned(), damaged))?;
        // Written anew, so a torn end is gone, and what comes next stands behind what is whole.
        let (journal, tail) = write_new(path, &state).map_err(failed)?;
        put_in_place(path).map_err(failed)?;
        Ok(Folder {
            path: path.to_owned(),
            journal,
            state,
            tail,
            base: tail.end,
            taken: 0,
            ahead: AHEAD,
            full: Sparse::default(),
            _lock: lock,
        })
    }

    /// What is kept.
    pub fn state(&self) -> &State {
        &self.state
    }
}

/// How much of what is taken ahead is for what ends loans.
fn kept_back(ahead: u64) -> u64 {
    ahead / 4 * 3
}

/// A number for a journal's checksums.
fn salt() -> u64 {
    RandomState::new().hash_one(0)
}

/// A new journal, beside the one there is.
fn write_new(path: &Path, state: &State) -> io::Result<(File, Tail)> {
    let (bytes, tail) = journal::begin(state, salt());
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(true);
    let mut file = options.open(path.join(NEW))?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    Ok((file, tail))
}

/// Has the new journal take the place of the one there is, in one step.
fn put_in_place(path: &Path) -> io::Result<()> {
    fs::rename(path.join(NEW), path.join("journal"))?;
    File::open(path)?.sync_all()
}

impl Keeper for Folder {
    fn keep(&mut self, records: &[Record]) -> Result<Vec<LoanId>, NotKept> {
        let record = self.tail.record(records);
        self.journal.write_all_at(&record, self.tail.end)?;
        self.journal.sync_data()?;
        self.tail.advance(record.len());
        for record in records {
            self.state.take(record);
        }
        if self.tail.end - self.base > ANEW {
            match write_new(&self.path, &self.state) {
                Ok((journal, tail)) => {
                    put_in_place(&self.path)?;
                    (self.journal, self.tail) = (journal, tail);
                    (self.base, self.taken) = (self.tail.end, 0);
                }
                // What happened is kept all the same; it is tried again when there is as much more.
                Err(error) => {
                    tracing::warn!(%error, "the journal cannot be written anew, and grows");
                    self.base = self.tail.end;
                }
            }
        }
        Ok(Vec::new())
    }

    fn has_room(&mut self) -> bool {
        let at = self.tail.end;
        // All loans are to end in it, and the next one.
        let ends = END_BYTES * (self.state.loans.len() as u64 + 1);
        if self.taken >= at + kept_back(self.ahead).max(ends) {
            return true;
        }
        let least = AHEAD_MIN.max(2 * ends);
        let mut ahead = AHEAD;
        loop {
            // The length stays: what is taken is no part of the file yet.
            match fallocate(&self.journal, FallocateFlags::KEEP_SIZE, at, ahead) {
                Ok(()) => {
                    (self.taken, self.ahead) = (at + ahead, ahead);
                    return true;
                }
                // A file system that cannot tell is taken to have room, until a write fails.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return true,
                Err(_) if ahead / 2 >= least => ahead /= 2,
                Err(error) => {
                    if let Some(left_out) = self.full.line(clock::monotonic()) {
                        let folder = self.path.display();
                        tracing::error!(
                            %folder, bytes = ahead, %error, left_out,
                            "nothing is lent: there is no room for the journal; make some"
                        );
                    }
                    return false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loan::LoanId;
    use crate::monitor::keeper::Kept;

    fn begun(loan: u64) -> Record {
        Record::Begun(Kept {
            loan: LoanId(loan),
            lender: "lender".parse().expect("a name"),
            borrower: "borrower".parse().expect("a name"),
            share: crate::resource::Share::memory(1),
            since: 1,
            stands: false,
        })
    }

    #[test]
    fn what_was_kept_is_there_again_also_when_it_was_written_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let open = || Folder::open(&path).expect("a folder");
        let mut kept = open();
        assert!(matches!(Folder::open(&path), Err(FolderError::InUse(_))));
        assert!(kept.has_room());
        // Each time some loans stay; so much is written that it is written anew.
        for loan in 1..=20_000 {
            let mut records = vec![begun(loan), Record::Stands(LoanId(loan))];
            if loan % 1000 != 0 {
                records.push(Record::Gone(LoanId(loan)));
            }
            if kept.tail.end - kept.base > ANEW - 500 || loan % 1000 == 0 {
                kept.keep(&records).expect("it is kept");
            } else {
                // Without waiting for the disk each time.
                let record = kept.tail.record(&records);
                kept.journal
                    .write_all_at(&record, kept.tail.end)
                    .expect("written");
                kept.tail.advance(record.len());
                records
                    .iter()
                    .for_each(|record| assert!(kept.state.take(record)));
            }
        }
        assert!(kept.base > 100, "it was written anew");
        let state = kept.state.clone();
        assert_eq!((state.last, state.loans.len()), (20_000, 20));
        drop(kept);
        assert_eq!(*open().state(), state);
    }

    #[test]
    fn where_there_is_no_room_for_a_new_journal_the_old_one_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut kept = Folder::open(folder.path()).expect("a folder");
        let in_the_way = folder.path().join(NEW);
        fs::create_dir(&in_the_way).expect("a folder");
        let mut keep = |from: u64| {
            let records: Vec<Record> = (from..from + 30_000).map(begun).collect();
            kept.keep(&records).expect("it is kept");
            (kept.tail.end, kept.state.clone())
        };
        assert!(keep(1).0 > ANEW);
        let (end, state) = keep(30_001);
        assert!(end > 2 * ANEW, "it grew");
        fs::remove_dir(&in_the_way).expect("it is empty");
        drop(kept);
        assert_eq!(
            *Folder::open(folder.path()).expect("a folder").state(),
            state
        );
    }

    #[test]
    fn a_torn_end_is_cut_and_damage_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = folder.path().join("journal");
        let mut kept = Folder::open(folder.path()).expect("a folder");
        for loan in 1..=3 {
            kept.keep(&[begun(loan)]).expect("it is kept");
        }
        drop(kept);
        let bytes = fs::read(&journal).expect("a journal");
        fs::write(&journal, &bytes[..bytes.len() - 3]).expect("a torn end");
        let kept = Folder::open(folder.path()).expect("a torn end is cut");
        assert_eq!(kept.state.last, 2);
        drop(kept);
        let mut bytes = bytes;
        bytes[60] ^= 1;
        fs::write(&journal, &bytes).expect("damage");
        let error = Folder::open(folder.path()).expect_err("damage is refused");
        assert!(error.to_string().contains("damaged at byte"), "{error}");
        // What is there was not touched.
        assert_eq!(fs::read(&journal).expect("a journal"), bytes);
    }
}
