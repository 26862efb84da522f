//! A file that one process at a time has.

use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So long a lock that another process has is waited for: one that was killed closes its other
/// files before the kernel lets go of its locks.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two tries to take it.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// Opens a file, which is made where there is none, and locks it; None where another process has it
/// locked for longer than a moment.
pub(super) fn hold(path: &Path) -> io::Result<Option<File>> {
    let end = Instant::now() + PATIENCE;
    loop {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Who had it may have removed it since it was opened here.
            Ok(()) if is_at(&file, path)? => return Ok(Some(file)),
            Ok(()) => continue,
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < end => sleep(TRY_AGAIN),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether this is the file at that path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_lock_whose_file_was_removed_is_nobodys() {
        let dir = TempDir::new().expect("a folder");
        let path = dir.path().join("lock");
        let first = hold(&path).expect("a file").expect("nobody has it");
        let waits = {
            let path = path.clone();
            std::thread::spawn(move || hold(&path).expect("a file").is_some())
        };
        sleep(Duration::from_millis(50));
        fs::remove_file(&path).expect("it is there");
        let second = hold(&path).expect("a file").expect("a new one");
        drop(first);
        assert!(!waits.join().expect("no panic"), "the second one has it");
        drop(second);
    }
}
