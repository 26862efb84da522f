//! Keeps two controllers of one server apart, whatever state files they have: each locks a file
//! that is called by what it switches, in a folder that all of its user's share, before it looks at what
//! the server has.
//!
//! ```text
//! cgroup!sys!fs!cgroup!web.lock      locked by who switches that; its text is the path of who's
//!                                    state file: where both it and its guardian were killed, the
//!                                    next one knows from there what has to be put back
//! ```

use super::state::StateError;
use rustix::fs::FlockOperation;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So long a lock that another process has is waited for: one that was killed closes its other
/// files before the kernel lets go of its locks.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two tries to take it.
const TRY_AGAIN: Duration = Duration::from_millis(5);
/// Longest name of a file, without its ending.
const NAME_MAX: usize = 200;
/// Longest path of a state file that is read.
const PATH_MAX: u64 = 4096;

/// Where controllers of this user keep what they share: `/run/rhythm-rpo` for root, in which the
/// service keeps its state, too; for others a folder in `$XDG_RUNTIME_DIR`. None where there is no
/// such place.
#[must_use]
pub fn shared_folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some("/run/rhythm-rpo".into());
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?;
    Some(Path::new(&folder).join("rhythm-rpo"))
}

/// A server that no other controller switches as long as this is held.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    state: PathBuf,
    /// Held as long as it is open.
    _file: File,
}

impl Lock {
    /// Locks `what` for a controller with this state file, in a folder that is made where there is
    /// none. Gives another's state file, where that one held it, was killed, and left something to
    /// put back.
    ///
    /// # Errors
    /// When another controller has it, or the folder cannot be written to.
    pub fn take(
        folder: &Path,
        what: &str,
        state: &Path,
    ) -> Result<(Lock, Option<PathBuf>), StateError> {
        let path = folder.join(name(what));
        let state = std::path::absolute(state).unwrap_or_else(|_| state.to_owned());
        let take = || -> io::Result<Option<(File, Option<PathBuf>)>> {
            match fs::DirBuilder::new().mode(0o755).create(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let Some(mut file) = hold(&path)? else {
                return Ok(None);
            };
            let mut text = Vec::new();
            (&file).take(PATH_MAX).read_to_end(&mut text)?;
            let left = (!text.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(&text)));
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(state.as_os_str().as_bytes())?;
            Ok(Some((file, left)))
        };
        match take() {
            Ok(Some((file, left))) => {
                let left = left.filter(|left| *left != state && left.exists());
                let lock = Lock {
                    path,
                    state,
                    _file: file,
                };
                Ok((lock, left))
            }
            Ok(None) => Err(StateError::Switched(what.to_owned())),
            Err(source) => Err(StateError::Lock { path, source }),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // As long as something is to be put back, it says where that is known. It goes while it is
        // still held: who waits for it sees that it is not the one at that path.
        if !self.state.exists() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The file of what is switched.
fn name(what: &str) -> String {
    let text: String = what
        .chars()
        .map(|character| match character {
            '/' => '!',
            other => other,
        })
        .collect();
    // The end of a path says more than its beginning.
    let mut from = text.len().saturating_sub(NAME_MAX);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    format!("{}.lock", &text[from..])
}

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
    fn a_server_has_one_controller_whatever_its_state_file() {
        let dir = TempDir::new().expect("a folder");
        let folder = dir.path().join("shared");
        let states = ["a", "b"].map(|name| dir.path().join(name));
        let take = |what, state: usize| Lock::take(&folder, what, &states[state]);
        let (first, left) = take("cgroup /sys/web", 0).expect("nobody has it");
        assert_eq!(left, None);
        let error = take("cgroup /sys/web", 1).expect_err("one has it");
        let error = error.to_string();
        assert!(error.contains("/sys/web already"), "{error}");
        let (other, _) = take("cgroup /sys/mail", 1).expect("another server");
        // In order nothing is left of them; of one that was killed, where its state is.
        drop((first, other));
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
        let (killed, _) = take("cgroup /sys/web", 0).expect("nobody has it");
        fs::write(&states[0], "cgroup /sys/web\t0-3\n").expect("a file");
        drop(killed);
        let (next, left) = take("cgroup /sys/web", 1).expect("nobody has it");
        assert_eq!(left.as_ref(), Some(&states[0]));
        // Once that is put back, it is of no interest.
        drop(next);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    }

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

    #[test]
    fn names_of_any_length_are_files() {
        let long = format!("cgroup {}", "/\u{e4}".repeat(300));
        assert!(name(&long).len() <= NAME_MAX + 5);
        assert_eq!(name("smt /sys/x"), "smt !sys!x.lock");
    }
}
