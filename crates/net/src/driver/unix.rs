//! Files of Unix sockets: whether somebody listens there, and when they are removed.
//!
//! Such a file stays when its process dies, and then nobody answers there: whoever comes next may
//! take its place. A process that ends by itself removes its own.

use crate::driver::listen_error::ListenError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file of a socket that listens; dropped, it is removed, unless another has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

/// Which file it is: its file system, its number there, which others may have later, and when it
/// was made.
type Identity = (u64, u64, i64, i64);

impl SocketFile {
    /// The one that was made just now.
    pub(crate) fn new(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile {
            path: std::path::absolute(path)?,
            identity: identity(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // Where it cannot be removed, the next one takes its place.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<Identity> {
    let found = fs::symlink_metadata(path)?;
    // Connections and changed permissions leave the time of modification as it is.
    let (dev, ino) = (found.dev(), found.ino());
    Ok((dev, ino, found.mtime(), found.mtime_nsec()))
}

/// Removes the socket of a process that has died, if there is one.
///
/// # Errors
///
/// What is there is no socket, or one at which somebody listens.
pub(crate) fn make_way(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    let failed = |error: io::Error| ListenError::unix(path, error);
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !found.file_type().is_socket() {
        return Err(ListenError::NoSocket(path.into()));
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let probe = probe.map_err(|errno| failed(errno.into()))?;
    match connect(&probe, address) {
        // With a full queue, or of another type of sockets, too.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(ListenError::UnixInUse(path.into())),
        Err(Errno::CONNREFUSED) => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        },
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(errno.into())),
    }
}
