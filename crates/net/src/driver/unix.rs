//! Files of Unix sockets: whether somebody listens there, and when they are removed.
//!
//! Such a file stays when its process dies, and then nobody answers there: whoever comes next may
//! take its place. A process that ends by itself removes its own. Of several that do so at once
//! each has the folder alone meanwhile, so that nobody takes what is new for what is left.

use crate::driver::listen_error::ListenError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long a folder is waited for, which no process of ours has for longer than a few system
/// calls; and how often it is tried.
const FOLDER_TIME: Duration = Duration::from_secs(1);
const FOLDER_LOOK: Duration = Duration::from_millis(2);

/// The file of a socket that listens; dropped, it is removed, unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
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
        let _alone = have_folder(&self.path);
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

/// Listens on a Unix socket at a path, for a thread that waits there. The socket of a process that
/// has died is replaced; what is returned beside removes the file.
///
/// # Errors
///
/// [`ListenError`], worded for the person who chose the path.
pub fn listen_at(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    let failed = |error: io::Error| ListenError::unix(path, error);
    let address = SocketAddrUnix::new(path).map_err(|errno| failed(errno.into()))?;
    let _alone = make_way(path, &address)?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    Ok((listener, SocketFile::new(path).map_err(failed)?))
}

/// Has the folder of a path alone among those that ask so, until what is returned is dropped. Who
/// may not read it, or finds that somebody else keeps it, goes on without.
fn have_folder(path: &Path) -> Option<File> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    let start = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return Some(folder),
            Err(TryLockError::WouldBlock) if start.elapsed() < FOLDER_TIME => {
                thread::sleep(FOLDER_LOOK);
            }
            Err(_) => return None,
        }
    }
}

/// Removes the socket of a process that has died, if there is one; what is returned is to be kept
/// until the new one listens.
///
/// # Errors
///
/// What is there is no socket, or one at which somebody listens.
pub(crate) fn make_way(path: &Path, address: &SocketAddrUnix) -> Result<Option<File>, ListenError> {
    let failed = |error: io::Error| ListenError::unix(path, error);
    let alone = have_folder(path);
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(alone),
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
            _ => Ok(alone),
        },
        Err(Errno::NOENT) => Ok(alone),
        Err(errno) => Err(failed(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::sync::Barrier;
    use std::{env, process};

    #[test]
    fn of_many_that_find_what_the_dead_left_one_listens() {
        // Nobody else has this folder.
        let folder = env::temp_dir().join(format!("rhythm-many-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("s");
        for _ in 0..50 {
            drop(UnixListener::bind(&path).unwrap());
            let gate = Barrier::new(8);
            let listening: Vec<_> = thread::scope(|scope| {
                let one = || {
                    gate.wait();
                    listen_at(&path)
                };
                let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let won = listening.iter().filter(|one| one.is_ok()).count();
            assert_eq!(won, 1, "{listening:?}");
            UnixStream::connect(&path).unwrap();
            drop(listening);
            assert!(!path.exists());
        }
        fs::remove_dir(&folder).unwrap();
    }
}
