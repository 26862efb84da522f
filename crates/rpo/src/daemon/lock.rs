//! Keeps two controllers of one server apart, whatever state files they have: each locks a file
//! that is called by what it switches, in a folder that all of its user's share, before it looks at
//! what the server has.
//!
//! ```text
//! cgroup!sys!fs!cgroup!web.lock      locked by who switches that; its text is the path of who's
//!                                    state file: where both it and its guardian were killed, the
//!                                    next one knows from there what has to be put back
//! ```

use super::hold::hold;
use super::state::StateError;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

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
    /// What its text names: the path of this controller's state file, or of another's that left
    /// something.
    named: PathBuf,
    /// Held as long as it is open.
    file: File,
}

impl Lock {
    /// Locks `what` for a controller with this state file, in a folder that is made where there is
    /// none. Gives another's state file, where that one held it, was killed, and left something to
    /// put back: once that is done, this is to be made [one's own](Lock::own).
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
            let Some(file) = hold(&path)? else {
                return Ok(None);
            };
            let mut text = Vec::new();
            (&file).take(PATH_MAX).read_to_end(&mut text)?;
            let left = (!text.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(&text)));
            Ok(Some((file, left)))
        };
        match take() {
            Ok(Some((file, left))) => {
                let left = left.filter(|left| *left != state && left.exists());
                let mut lock = Lock {
                    path,
                    named: left.clone().unwrap_or_else(|| state.clone()),
                    state,
                    file,
                };
                if left.is_none() {
                    lock.own()?;
                }
                Ok((lock, left))
            }
            Ok(None) => Err(StateError::Switched(what.to_owned())),
            Err(source) => Err(StateError::Lock { path, source }),
        }
    }

    /// Has it name this controller's own state file. Not before what another one left is put back:
    /// should that fail, or this process be killed meanwhile, the next one still knows of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn own(&mut self) -> Result<(), StateError> {
        let mut write = || {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(self.state.as_os_str().as_bytes())
        };
        write().map_err(|source| StateError::Lock {
            path: self.path.clone(),
            source,
        })?;
        self.named.clone_from(&self.state);
        Ok(())
    }

    /// Lets it go while its controller goes on, with another server: what the state file has is of
    /// that one.
    pub fn release(mut self) {
        self.named.clear();
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // As long as something is to be put back, it says where that is known. It goes while it is
        // still held: who waits for it sees that it is not the one at that path.
        if !self.named.exists() {
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
        // However often that is not put back.
        for _ in 0..2 {
            let (_next, left) = take("cgroup /sys/web", 1).expect("nobody has it");
            assert_eq!(left.as_ref(), Some(&states[0]));
        }
        let (mut next, _) = take("cgroup /sys/web", 1).expect("nobody has it");
        // One that is let go says nothing of what its controller has to put back of others.
        fs::write(&states[1], "cgroup /sys/mail\t0-3\n").expect("a file");
        let (former, _) = take("process 1:2", 1).expect("nobody has it");
        former.release();
        let (latter, left) = take("process 1:2", 0).expect("nobody has it");
        assert_eq!(left, None);
        latter.release();
        fs::remove_file(&states[1]).expect("it is there");
        // Once it is, it is of no interest.
        fs::remove_file(&states[0]).expect("it is there");
        next.own().expect("it can be written");
        fs::write(&states[1], "cgroup /sys/web\t0-3\n").expect("a file");
        drop(next);
        let (last, left) = take("cgroup /sys/web", 0).expect("nobody has it");
        assert_eq!(left.as_ref(), Some(&states[1]));
        fs::remove_file(&states[1]).expect("it is there");
        drop(last);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    }

    #[test]
    fn names_of_any_length_are_files() {
        let long = format!("cgroup {}", "/\u{e4}".repeat(300));
        assert!(name(&long).len() <= NAME_MAX + 5);
        assert_eq!(name("smt /sys/x"), "smt !sys!x.lock");
    }
}
