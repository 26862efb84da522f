//! The file in which items lie, for a server that finds them again: `PATH` with the heap, and
//! `PATH.meta`, which is there only while no server runs, and only if the last one ended in order.
//!
//! ```text
//!   byte 0         2 MiB                                        the heap's end
//!        | what it | the heap of the store, as it is in memory |
//!        | is      |                                           |
//! ```
//!
//! Who opens it has it alone. Its room is taken at once: where the file system is full, a write to
//! memory would end the process.

use super::region::Region;
use crate::checksum::checksum;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What such a file begins with.
const MAGIC: &[u8] = b"rhythm kv memory file\n";
/// Where the heap begins: a huge page is there.
const HEAP: u64 = 2 << 20;
/// Nobody but its user reads what is in the cache.
const MODE: u32 = 0o600;
/// The longest metadata: a line for each segment that can be.
const META_MAX: u64 = 256 << 20;
const KEY: [u64; 2] = [0x7365_676d_656e_7473, 0x6174_2072_6573_7421];

/// Why a memory file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Another server uses it.
    #[error(
        "another server has the memory file {0}, or is about to end and leaves its items there: \
         wait for it, or give each server a file of its own"
    )]
    InUse(PathBuf),
    /// It is something else.
    #[error(
        "{0} is no memory file of rhythm kv, and stays as it is: give another path, or remove it"
    )]
    NotOurs(PathBuf),
    /// Another user made it.
    #[error(
        "{0} is another user's, who could read and change what is in the cache: give another path, \
         remove it, or start as that user (-u)"
    )]
    OtherUser(PathBuf),
    /// There is no room.
    #[error(
        "there is no room for {bytes} bytes in the memory file {path}, which takes all of -m at \
         once: {error}"
    )]
    Room {
        /// The file.
        path: PathBuf,
        /// How much it is to have.
        bytes: u64,
        /// What the system said.
        error: io::Error,
    },
    /// The system.
    #[error("cannot use {path} for the memory file: {error}")]
    System {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// What an earlier server left beside it.
pub(super) enum Left {
    /// There was none: the file is new.
    New,
    /// None, or one that did not end in order.
    Nothing,
    /// The metadata.
    Meta(Vec<u8>),
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct MemoryFile {
    path: PathBuf,
    /// Locked as long as it is open.
    file: File,
    is_new: bool,
}

impl MemoryFile {
    /// Opens it, and makes it where it is not there.
    pub(super) fn open(path: &Path) -> Result<MemoryFile, FileError> {
        let failed = |error| FileError::System {
            path: path.to_owned(),
            error,
        };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).mode(MODE);
        let made = options.create_new(true).open(path);
        let was_there = matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists);
        let file = match was_there {
            true => options.create_new(false).open(path),
            false => made,
        };
        let file = file.map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(FileError::NotOurs(path.to_owned()));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FileError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Another may have made it before it was locked, and taken it away.
        let metadata = file.metadata().map_err(failed)?;
        if metadata.nlink() == 0 {
            return Err(FileError::InUse(path.to_owned()));
        }
        let is_new = metadata.len() == 0;
        let mut magic = [0; MAGIC.len()];
        match file.read_exact_at(&mut magic, 0) {
            Ok(()) if magic == MAGIC => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(failed(error));
            }
            _ if is_new => {}
            _ => return Err(FileError::NotOurs(path.to_owned())),
        }
        // It may have been there, with whatever rights. What was made here is ours, even where the
        // file system calls its user another.
        if was_there && metadata.uid() != geteuid().as_raw() {
            return Err(FileError::OtherUser(path.to_owned()));
        }
        if metadata.mode() & 0o777 != MODE {
            let rights = Permissions::from_mode(MODE);
            file.set_permissions(rights).map_err(failed)?;
        }
        if is_new {
            file.write_all_at(MAGIC, 0).map_err(failed)?;
        }
        let file = MemoryFile {
            path: path.to_owned(),
            file,
            is_new,
        };
        // One that was killed while it left its items has left this.
        let _ = fs::remove_file(file.meta_new());
        Ok(file)
    }

    /// Gives it a heap of so many bytes, no more and no fewer, all of which there is room for.
    pub(super) fn reserve(&self, heap: usize) -> Result<(), FileError> {
        let bytes = heap as u64;
        let failed = |error| FileError::Room {
            path: self.path.clone(),
            bytes,
            error,
        };
        let taken = loop {
            match fallocate(&self.file, FallocateFlags::empty(), HEAP, bytes) {
                Err(Errno::INTR) => {}
                done => break done.map_err(io::Error::from),
            }
        };
        let done = taken.and_then(|()| self.file.set_len(HEAP + bytes));
        if done.is_err() && self.is_new {
            // What was taken goes back.
            let _ = fs::remove_file(&self.path);
        }
        done.map_err(failed)
    }

    /// The heap's memory.
    pub(super) fn region(&self, heap: usize) -> Result<Region, FileError> {
        let region = Region::of_file(&self.file, HEAP, heap);
        region.map_err(|error| self.failed(error))
    }

    /// Takes away what an earlier server left: from now on the heap may be changed.
    pub(super) fn take_left(&self) -> Result<Left, FileError> {
        let path = self.meta();
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(META_MAX).read_to_end(&mut bytes));
        let gone = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(if self.is_new {
                    Left::New
                } else {
                    Left::Nothing
                });
            }
            // What cannot be read says nothing.
            Err(_) => fs::remove_file(&path),
            Ok(_) => fs::remove_file(&path),
        };
        let gone = gone.and_then(|()| self.sync_folder());
        gone.map_err(|error| FileError::System { path, error })?;
        Ok(Left::Meta(bytes))
    }

    /// Leaves metadata for the next server, when all that is in the heap is in its place.
    pub(super) fn leave(&self, meta: &[u8]) -> io::Result<()> {
        self.file.sync_all()?;
        let new = self.meta_new();
        // Whatever is there, with whatever rights, is not written to.
        let _ = fs::remove_file(&new);
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true);
        let mut file = options.mode(MODE).open(&new)?;
        let written = file.write_all(meta).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // It takes room, and is of no use.
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        fs::rename(&new, self.meta())?;
        self.sync_folder()
    }

    /// Writes into the heap, where no item is.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, HEAP + at as u64)
    }

    /// Reads from the heap.
    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, HEAP + at as u64)
    }

    /// The checksum of a part of the heap, which is read into `buffer`.
    pub(super) fn checksum(
        &self,
        at: usize,
        bytes: usize,
        buffer: &mut Vec<u8>,
    ) -> io::Result<u64> {
        buffer.resize(bytes, 0);
        self.read(at, buffer)?;
        Ok(checksum(KEY, buffer))
    }

    /// Where the metadata is.
    fn meta(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".meta");
        path.into()
    }

    /// Where it is while it is written.
    fn meta_new(&self) -> PathBuf {
        let mut path = self.meta().into_os_string();
        path.push(".new");
        path.into()
    }

    fn failed(&self, error: io::Error) -> FileError {
        FileError::System {
            path: self.path.clone(),
            error,
        }
    }

    /// What was named and removed in its folder is so on the disk, too.
    fn sync_folder(&self) -> io::Result<()> {
        let folder = self
            .path
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}
