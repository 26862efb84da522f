//! A node's folder: the journal in it, and a lock, so that no two processes are one node.
//!
//! Room on the disk is taken ahead: while there is some left, what nodes need to agree at all can
//! be written, and clients' writes are refused already.

use super::{Disk, Unwritten};
use rhythm_net::clock;
use rhythm_observe::TimeHistogram;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, syncfs};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::mem;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are taken ahead of what is written.
const AHEAD: u64 = 4 << 20;
/// How much is taken at a time.
const STEP: u64 = 1 << 20;

/// A disk that takes so long has nodes take this one for dead.
const SLOW: Duration = Duration::from_secs(1);

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another process uses it.
    #[error("{0}: another process uses it")]
    InUse(PathBuf),
    /// It is empty, and not to be begun.
    #[error(
        "{0}: there is no journal. A node that begins anew has forgotten what it confirmed: only \
         if none of the nodes ever ran, or this one never did, say --begin. Where it ran, what it \
         confirmed to others is lost, so it is to be replaced (docs/kv-keyspace.md)"
    )]
    Empty(PathBuf),
    /// Its journal has nothing in it, and had: it gets its name when the first record is in it.
    #[error(
        "{0}: the journal is empty: what this node confirmed to others is lost, so it is to be \
         replaced (docs/kv-keyspace.md)"
    )]
    Emptied(PathBuf),
    /// It is to be begun, and was.
    #[error("{0}: there is a journal already; leave --begin out")]
    Begun(PathBuf),
    /// The system.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
}

/// See the head of this file.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    journal: File,
    /// Up to where the journal is written, and room is taken.
    end: u64,
    taken: u64,
    syncs: Arc<SyncTimes>,
    /// Held as long as the folder is used.
    _lock: File,
}

/// How long the disk took each time, in nanoseconds.
pub(in crate::consensus) type SyncTimes = TimeHistogram;

impl Folder {
    /// Opens a folder, which is made if it is to be begun, with the journal in it.
    ///
    /// # Errors
    /// Where it is in use, or begun though it may not be, or not though it has to be.
    pub fn open(path: &Path, begin: bool) -> Result<(Folder, Vec<u8>), FolderError> {
        let failed = |error| FolderError::System(path.to_owned(), error);
        let syncs = Arc::new(SyncTimes::default());
        if begin {
            make(path, &syncs).map_err(failed)?;
        }
        let lock = match File::create(path.join("lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !begin => {
                return Err(FolderError::Empty(path.to_owned()));
            }
            lock => lock.map_err(failed)?,
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let mut journal = match options.open(path.join("journal")) {
            Ok(_) if begin => return Err(FolderError::Begun(path.to_owned())),
            Ok(journal) => {
                // Who gave it its name may have been killed before that was synced.
                let folder = File::open(path).map_err(failed)?;
                sync_folder(&folder, &syncs).map_err(failed)?;
                journal
            }
            // It gets its name when the first record is in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && begin => options
                .create(true)
                .truncate(true)
                .open(path.join("journal.new"))
                .map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FolderError::Empty(path.to_owned()));
            }
            Err(error) => return Err(failed(error)),
        };
        // What was not synced, as the disk failed, had better not be read from the system's memory;
        // where it is all the same, it is written anew (`Journal::begin`).
        let _ = fadvise(&journal, 0, None, Advice::DontNeed);
        let mut bytes = Vec::new();
        journal.read_to_end(&mut bytes).map_err(failed)?;
        if bytes.is_empty() && !begin {
            return Err(FolderError::Emptied(path.to_owned()));
        }
        let folder = Folder {
            path: path.to_owned(),
            journal,
            end: bytes.len() as u64,
            taken: 0,
            syncs,
            _lock: lock,
        };
        Ok((folder, bytes))
    }

    /// How long the disk takes to have what was written.
    pub(in crate::consensus) fn sync_times(&self) -> Arc<SyncTimes> {
        Arc::clone(&self.syncs)
    }
}

/// Makes a folder, with those above it that are not there, so that it is there when the machine was
/// without power, too: what is in it is synced with it alone. Whether they are new is not asked:
/// who made them may have been killed before that.
///
/// A folder that may not be read cannot be opened, and so not be synced by itself; but where it may
/// be written to and passed through (mode 0733), what is in it may have been made by this. So the
/// whole file system is synced then, which takes longer where others write to it, once.
fn make(path: &Path, syncs: &SyncTimes) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let path = fs::canonicalize(path)?;
    let device = fs::metadata(&path)?.dev();
    for above in path.ancestors().skip(1) {
        if fs::metadata(above)?.dev() != device {
            // What another file system is mounted at was not made by this.
            break;
        }
        match File::open(above) {
            // All that are above are of the same.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let folder = File::open(&path)?;
                return timed(syncs, || Ok(syncfs(&folder)?));
            }
            above => sync_folder(&above?, syncs)?,
        }
    }
    Ok(())
}

/// Has the names in a folder be there from now on, whatever happens.
fn sync_folder(folder: &File, syncs: &SyncTimes) -> io::Result<()> {
    timed(syncs, || folder.sync_all())
}

/// Records how long it takes.
fn timed(times: &SyncTimes, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let start = clock::monotonic();
    let synced = sync();
    let took = clock::monotonic().since(start);
    times.record(took.as_nanos() as u64, 1);
    // Each such line is of a second or more, so there are few.
    if took >= SLOW {
        tracing::warn!(
            seconds = took.as_secs_f64(),
            "the disk was slow to have what was written: this node said nothing to anybody \
             meanwhile, and others take one that is silent for as long for dead"
        );
    }
    synced
}

impl Folder {
    fn try_write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let before = mem::replace(&mut self.end, u64::MAX);
        self.journal.write_all_at(bytes, at)?;
        let end = at + bytes.len() as u64;
        // What a write before left behind it goes: not first, as what is written again is synced.
        if before != at {
            self.journal.set_len(end)?;
            self.taken = 0;
        }
        self.end = end;
        Ok(())
    }

    /// Makes the file that is to be the journal.
    fn try_new(&self, bytes: &[u8]) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let mut file = options.open(self.path.join("journal.new"))?;
        file.write_all(bytes)?;
        timed(&self.syncs, || file.sync_all())?;
        Ok(file)
    }

    /// Gives it its name.
    fn try_name(&self) -> io::Result<()> {
        fs::rename(self.path.join("journal.new"), self.path.join("journal"))?;
        sync_folder(&File::open(&self.path)?, &self.syncs)
    }
}

impl Disk for Folder {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Unwritten> {
        self.try_write(at, bytes).map_err(Unwritten::Yet)
    }

    fn sync(&mut self) -> Result<(), Unwritten> {
        let synced = timed(&self.syncs, || self.journal.sync_data());
        synced.map_err(Unwritten::Ever)
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), Unwritten> {
        self.journal = self.try_new(bytes).map_err(|error| {
            // What there is of it takes the room that the journal needs.
            let _ = fs::remove_file(self.path.join("journal.new"));
            Unwritten::Yet(error)
        })?;
        (self.end, self.taken) = (bytes.len() as u64, 0);
        self.try_name().map_err(Unwritten::Ever)
    }

    fn has_room(&mut self) -> bool {
        if self.end == u64::MAX {
            return false;
        }
        if self.taken >= self.end + AHEAD - STEP {
            return true;
        }
        let taken = self.end + AHEAD;
        // The length stays: what is taken is no part of the file yet.
        match fallocate(&self.journal, FallocateFlags::KEEP_SIZE, self.end, AHEAD) {
            Ok(()) => {
                self.taken = taken;
                true
            }
            // A file system that cannot tell is taken to have room, until a write fails.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => true,
            Err(_) => false,
        }
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
