//! Regular files, found and read with care: a folder may hold what never ends, or leads elsewhere.
//!
//! A name is resolved to a handle that can be asked what it is and where, and nothing else
//! (`O_PATH`): a FIFO without a writer does not wait, a device does not act. Only then is a regular
//! file opened, through the handle, so that nobody can put something else in its place meanwhile.

use anyhow::{Context, Result, bail};
use rhythm_server::FileSource;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why something of a folder is not taken, and what can be done.
#[derive(Debug)]
pub(super) struct Unfit {
    pub(super) why: String,
    pub(super) cure: &'static str,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.why, self.cure)
    }
}

impl std::error::Error for Unfit {}

/// What a name stands for.
#[derive(Debug)]
pub(super) struct Found {
    path: PathBuf,
    handle: OwnedFd,
    stat: Stat,
}

/// Which file system, and which of its files.
pub(super) type Identity = (u64, u64);

impl Found {
    /// Looks where a path leads, through all links.
    pub(super) fn find(path: &Path) -> Result<Found> {
        let find = || {
            let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let stat = rustix::fs::fstat(&handle)?;
            Ok::<_, rustix::io::Errno>((handle, stat))
        };
        let (handle, stat) = find().with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Found {
            path: path.to_owned(),
            handle,
            stat,
        })
    }

    /// Whether it is a folder.
    pub(super) fn is_folder(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// What tells it from others.
    pub(super) fn identity(&self) -> Identity {
        (self.stat.st_dev, self.stat.st_ino)
    }

    /// Where it is, links resolved.
    pub(super) fn real_path(&self) -> Result<PathBuf> {
        let handle = self.handle_path();
        fs::read_link(&handle).with_context(|| format!("cannot read {handle} (is /proc mounted?)"))
    }

    /// Opens it if it is a regular file.
    pub(super) fn open(self) -> Result<RegularFile> {
        if self.kind() != FileType::RegularFile {
            let (path, kind) = (self.path.display(), name_of(self.kind()));
            bail!(Unfit {
                why: format!("{path} is {kind}, and only regular files are read"),
                cure: "move it out of the folder, or give it a name that begins with a dot",
            });
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || -> Result<RegularFile> {
            let file = File::from(rustix::fs::open(self.handle_path(), flags, Mode::empty())?);
            let version = Version::of(&file.metadata()?);
            Ok(RegularFile { file, version })
        };
        open().with_context(|| format!("cannot read {}", self.path.display()))
    }

    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    fn handle_path(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Directory => "a folder",
        _ => "no regular file",
    }
}

/// What is different once a file's bytes have changed. (That it has other names, or none, changes
/// nothing: whoever replaces files by renaming leaves the old one to be sent.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Version {
    identity: Identity,
    pub(super) length: u64,
    modified: (i64, i64),
}

impl Version {
    fn of(metadata: &Metadata) -> Version {
        Version {
            identity: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    /// The file system that it is on.
    pub(super) fn volume(&self) -> u64 {
        self.identity.0
    }
}

/// A regular file that is open, and what it was when it was opened.
#[derive(Debug)]
pub(super) struct RegularFile {
    file: File,
    pub(super) version: Version,
}

impl RegularFile {
    /// All of it, which is at most so many bytes.
    pub(super) fn read_all(&self, bytes_max: u64) -> Result<Vec<u8>> {
        let length = self.version.length;
        if length > bytes_max {
            bail!("it has {length} bytes, and {bytes_max} are the most");
        }
        let mut bytes = Vec::with_capacity(length as usize);
        // One more, so that a file that grows is found out.
        (&self.file).take(length + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length || !self.is_unchanged()? {
            bail!("it changed while it was read; try again");
        }
        Ok(bytes)
    }

    /// When it last changed, as far as its contents go.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        let (seconds, nanos) = self.version.modified;
        let since = Duration::new(seconds.try_into().ok()?, nanos.try_into().ok()?);
        UNIX_EPOCH.checked_add(since)
    }

    fn is_unchanged(&self) -> io::Result<bool> {
        Ok(Version::of(&self.file.metadata()?) == self.version)
    }
}

impl FileSource for RegularFile {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)?;
        // After it was read: what it was before is of no interest.
        match self.is_unchanged()? {
            true => Ok(()),
            false => Err(io::Error::other(
                "it has changed since the service was loaded",
            )),
        }
    }
}
