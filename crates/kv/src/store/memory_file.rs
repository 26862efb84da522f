//! The file in which items lie, for a server that finds them again: `PATH` with the heap, and
//! `PATH.meta`, in which is something only while no server runs, and only if the last one ended in
//! order.
//!
//! ```text
//!   byte 0         2 MiB                                        the heap's end
//!        | what it | the heap of the store, as it is in memory |
//!        | is      |                                           |
//! ```
//!
//! Who opens it has it alone. Its room is taken at once: where the file system is full, a write to
//! memory would end the process. So is the name of its metadata, which others could take where they
//! can write to the folder: what is in its place and not ours is a reason not to start, and not one
//! to lose all items at the end.

use super::region::Region;
use crate::checksum::checksum;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What such a file begins with.
const MAGIC: &[u8] = b"rhythm kv memory file\n";
/// Where the heap begins: a huge page is there.
const HEAP: u64 = 2 << 20;
/// Nobody but its user reads what is in the cache.
const MODE: u32 = 0o600;
/// What the metadata begin with, and what a system that stopped may have left in their place.
const META_HEAD: [u8; 5] = *b"form ";
const META_LOST: [u8; 5] = [0; 5];
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
    /// Something else is where the metadata comes at the end.
    #[error(
        "{0}, where what is beside the items is to be left at the end, is no regular file of this \
         user's alone: remove it, or give a path in a folder of this user's own (mode 700)"
    )]
    Taken(PathBuf),
    /// A file is to be made in a folder that lets this user make none.
    #[error(
        "cannot make {path}, since this user (number {user}) may not write to its folder: {error}; \
         give -e a path in a folder of its own, where PATH and PATH.meta can be made"
    )]
    Folder {
        /// The file.
        path: PathBuf,
        /// The user's number.
        user: u32,
        /// What the system said.
        error: io::Error,
    },
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
    /// What cannot be read.
    Unreadable(io::Error),
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct MemoryFile {
    path: PathBuf,
    is_new: bool,
    /// The metadata's, which is empty while a server runs.
    meta: File,
    /// Locked as long as it is open, as the other is: this is the one that is locked first, and
    /// given up last.
    file: File,
}

/// Opens a file to be read and written, and makes it where it is not there. Whether it was. Nothing
/// is waited for, whatever it is.
fn open(path: &Path, flags: OFlags) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    let flags = (flags | OFlags::NONBLOCK).bits() as i32;
    let options = options
        .read(true)
        .write(true)
        .mode(MODE)
        .custom_flags(flags);
    match options.create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((options.create_new(false).open(path)?, true))
        }
        made => Ok((made?, false)),
    }
}

/// Is it of the user that this process is?
fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == geteuid().as_raw()
}

/// Why a file cannot be opened, or made.
fn refusal(path: &Path, error: io::Error) -> FileError {
    let (path, kind) = (path.to_owned(), error.kind());
    let is_forbidden = matches!(
        kind,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    );
    // Where it is there, it is the file that is forbidden.
    if is_forbidden && path.symlink_metadata().is_err() {
        let user = geteuid().as_raw();
        return FileError::Folder { path, user, error };
    }
    FileError::System { path, error }
}

/// Removes what a version before this one wrote its metadata to, and left there where it was
/// killed.
fn remove_new_meta(meta: &Path) {
    let mut path = meta.as_os_str().to_owned();
    path.push(".new");
    let path = Path::new(&path);
    let is_ours = |of: Metadata| of.is_file() && is_own(&of) && of.nlink() == 1;
    if path.symlink_metadata().is_ok_and(is_ours) {
        // Where it stays, it is in nobody's way.
        let _ = fs::remove_file(path);
    }
}

/// Has nobody but the user read it.
fn close_to_others(file: &File, metadata: &Metadata) -> io::Result<()> {
    match metadata.mode() & 0o777 {
        MODE => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(MODE)),
    }
}

/// Where the metadata is.
fn meta_of(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".meta");
    path.into()
}

/// Opens the file of the metadata, as it was left.
fn open_meta(path: &Path) -> Result<File, FileError> {
    let failed = |error| FileError::System {
        path: path.to_owned(),
        error,
    };
    let taken = || FileError::Taken(path.to_owned());
    let (file, was_there) = match open(path, OFlags::NOFOLLOW) {
        Ok(opened) => opened,
        // A link, a folder, a socket, or another user's.
        Err(error) => match path.symlink_metadata() {
            Ok(of) if !of.is_file() || !is_own(&of) => return Err(taken()),
            _ => return Err(refusal(path, error)),
        },
    };
    let metadata = file.metadata().map_err(failed)?;
    // What was made here is ours, even where the file system calls its user another.
    let is_ours = !was_there || is_own(&metadata);
    if !metadata.is_file() || !is_ours || metadata.nlink() != 1 {
        return Err(taken());
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(FileError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let mut head = [0; META_HEAD.len()];
    if metadata.len() > 0 {
        // What can be read of it, and is not ours, stays as it is.
        let is_read = file.read_exact_at(&mut head, 0);
        if is_read.is_ok() && head != META_HEAD && head != META_LOST {
            return Err(FileError::NotOurs(path.to_owned()));
        }
    }
    close_to_others(&file, &metadata).map_err(failed)?;
    Ok(file)
}

/// Whether it is this file that is there.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (held, named) = (file.metadata().map(place), path.metadata().map(place));
    matches!((held, named), (Ok(held), Ok(named)) if held == named)
}

impl MemoryFile {
    /// Opens it, and makes it where it is not there.
    pub(super) fn open(path: &Path) -> Result<MemoryFile, FileError> {
        let failed = |error| FileError::System {
            path: path.to_owned(),
            error,
        };
        let opened = open(path, OFlags::empty());
        let (file, was_there) = opened.map_err(|error| refusal(path, error))?;
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
        if was_there && !is_own(&metadata) {
            return Err(FileError::OtherUser(path.to_owned()));
        }
        close_to_others(&file, &metadata).map_err(failed)?;
        let meta = open_meta(&meta_of(path)).inspect_err(|_| {
            if !was_there {
                // It was made for nothing.
                let _ = fs::remove_file(path);
            }
        })?;
        remove_new_meta(&meta_of(path));
        if is_new {
            file.write_all_at(MAGIC, 0).map_err(failed)?;
        }
        Ok(MemoryFile {
            path: path.to_owned(),
            file,
            is_new,
            meta,
        })
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
            let _ = fs::remove_file(meta_of(&self.path));
        }
        done.map_err(failed)
    }

    /// The heap's memory.
    pub(super) fn region(&self, heap: usize) -> Result<Region, FileError> {
        let region = Region::of_file(&self.file, HEAP, heap);
        region.map_err(|error| self.failed(error))
    }

    /// What an earlier server left.
    pub(super) fn left(&self) -> Left {
        let mut bytes = Vec::new();
        match (&self.meta).take(META_MAX).read_to_end(&mut bytes) {
            Ok(0) if self.is_new => Left::New,
            Ok(0) => Left::Nothing,
            Ok(_) => Left::Meta(bytes),
            Err(error) => Left::Unreadable(error),
        }
    }

    /// Leaves nothing of it: from now on the heap may be changed.
    pub(super) fn begin(&self) -> Result<(), FileError> {
        let was_empty = self.meta.metadata().is_ok_and(|meta| meta.len() == 0);
        let gone = self.meta.set_len(0).and_then(|()| self.meta.sync_all());
        let gone = match was_empty {
            true => gone,
            // It would come back with a name that is not there yet.
            false => gone.and_then(|()| self.sync_folder()),
        };
        gone.map_err(|error| FileError::System {
            path: meta_of(&self.path),
            error,
        })
    }

    /// Leaves metadata for the next server, when all that is in the heap is in its place. It ends
    /// with its checksum, so that a part of it is none.
    pub(super) fn leave(&self, meta: &[u8]) -> io::Result<()> {
        self.file.sync_all()?;
        let written = self.meta.write_all_at(meta, 0);
        if let Err(error) = written.and_then(|()| self.meta.sync_all()) {
            // It takes room, and is of no use.
            let _ = self.meta.set_len(0);
            return Err(error);
        }
        for (file, path) in [
            (&self.file, self.path.clone()),
            (&self.meta, meta_of(&self.path)),
        ] {
            if !is_at(file, &path) {
                return Err(io::Error::other(format!(
                    "somebody has removed or replaced {}: keep it in a folder that nobody else \
                     can write to",
                    path.display()
                )));
            }
        }
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
