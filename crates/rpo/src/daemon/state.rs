//! What has to be put back, in a file, so that who comes after a controller that was killed knows.
//!
//! ```text
//! FILE        a line for each thing (switcher/restore.rs); not there: nothing
//! FILE.lock   locked by the controller that runs, by no two
//! ```
//!
//! The file is there before anything is switched for the first time, and is replaced as a whole.
//! Who may write to it decides what a controller of the same user puts back, so it is its user's
//! alone.

use super::hold::hold;
use crate::switcher::{Restore, SwitchError, put_back};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So long a file that another process has is waited for: to put back what is in it may take
/// seconds, where systemd is asked.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of a file that is read: 65,536 processes.
const FILE_MAX: u64 = 4 << 20;

/// Why what has to be put back is not known.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another controller has it.
    #[error(
        "another controller runs with {0}: if it is of another server, give this one a --state of \
         its own"
    )]
    Held(PathBuf),
    /// Another controller switches the same.
    #[error("another controller switches {0} already: stop that one first")]
    Switched(String),
    /// A lock cannot be taken.
    #[error(
        "cannot keep {path}, by which controllers of one server know of each other (a confined \
         unit needs RuntimeDirectory=rhythm-rpo)"
    )]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be opened, read or written.
    #[error("cannot keep {path}, which says what has to be put back")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not to be believed.
    #[error("{path} is not believed: {why}; see what it says, and remove it")]
    Strange {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// No controller has kept anything there.
    #[error("no controller has kept {0}, nor is one known to have done so: is the name right?")]
    Unknown(PathBuf),
    /// It would not be read as it is meant.
    #[error("{path} cannot hold what has to be put back: {what}")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What that is.
        what: String,
    },
    /// It could not be put back.
    #[error("the server may still be confined")]
    Switch(#[from] SwitchError),
}

/// What was put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// How many things.
    pub count: usize,
    /// What of them could not be, in words: CPUs that are not there any more.
    pub left_out: Vec<String>,
}

/// The file, held by this process.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    /// Held as long as it is open.
    _lock: File,
}

impl State {
    /// Takes the file for this process. Who has it may be about to let it go, so it is waited for a
    /// moment: a controller that was killed has closed the pipe to its guardian before the kernel
    /// lets go of its lock, and the next controller may come while the guardian puts back.
    ///
    /// # Errors
    /// When another one keeps it, or there is no folder for it.
    pub fn take(path: &Path) -> Result<State, StateError> {
        match hold(&beside(path, ".lock")) {
            Ok(Some(lock)) => Ok(State {
                path: path.to_owned(),
                _lock: lock,
            }),
            Ok(None) => Err(StateError::Held(path.to_owned())),
            Err(source) => Err(StateError::File {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Takes the file that a controller has kept: it, or the lock that every controller leaves, is
    /// there.
    ///
    /// # Errors
    /// When neither is, and as [`State::take`].
    pub fn find(path: &Path) -> Result<State, StateError> {
        let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
        if !is_there(path) && !is_there(&beside(path, ".lock")) {
            return Err(StateError::Unknown(path.to_owned()));
        }
        State::take(path)
    }

    /// Puts back what a controller that was killed left in this file. Where another process has it,
    /// which may be about to do that (its guardian, or the next controller with that file), it is
    /// waited for.
    ///
    /// # Errors
    /// When that one keeps it, and as [`State::take`] and [`State::put_back`].
    pub fn put_back_left(path: &Path) -> Result<PutBack, StateError> {
        let end = Instant::now() + PATIENCE;
        loop {
            match State::take(path) {
                Err(StateError::Held(_)) if !path.exists() => return Ok(PutBack::default()),
                // That has taken a moment.
                Err(StateError::Held(_)) if Instant::now() < end => {}
                taken => return taken?.put_back(),
            }
        }
    }

    /// Writes what has to be put back from now on.
    ///
    /// # Errors
    /// When it cannot be written, or would be read as something else: the file stays as it is.
    pub(crate) fn save(&self, restores: &[Restore]) -> Result<(), StateError> {
        let new = beside(&self.path, ".new");
        let unwritable = |what| StateError::Unwritable {
            path: self.path.clone(),
            what,
        };
        let mut text = String::new();
        for restore in restores {
            let line = restore.to_string();
            // A path may be no text, or have in it what parts lines and their fields.
            if line.contains('\n') || line.parse::<Restore>().as_ref() != Ok(restore) {
                return Err(unwritable(line.chars().take(200).collect()));
            }
            text += &line;
            text.push('\n');
        }
        if text.len() as u64 > FILE_MAX {
            return Err(unwritable(format!("it is longer than {FILE_MAX} bytes")));
        }
        let write = || {
            let mut options = File::options();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&new, &self.path)
        };
        write().map_err(|source| StateError::File {
            path: self.path.clone(),
            source,
        })
    }

    /// Puts back what is in the file, and removes it; says what that was.
    ///
    /// # Errors
    /// When something cannot be put back, or the file is somebody else's: it stays. What can be put
    /// back is all the same.
    pub fn put_back(&self) -> Result<PutBack, StateError> {
        let restores = self.left()?;
        let (mut left_out, mut refused) = (Vec::new(), None);
        for restore in &restores {
            match put_back(restore) {
                Ok(rest) => left_out.extend(rest),
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        if let Some(error) = refused {
            return Err(error.into());
        }
        match fs::remove_file(&self.path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(StateError::File {
                path: self.path.clone(),
                source,
            }),
            _ => Ok(PutBack {
                count: restores.len(),
                left_out,
            }),
        }
    }

    /// What is in the file.
    fn left(&self) -> Result<Vec<Restore>, StateError> {
        let strange = |why: String| StateError::Strange {
            path: self.path.clone(),
            why,
        };
        let meta = match fs::symlink_metadata(&self.path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(StateError::File {
                    path: self.path.clone(),
                    source,
                });
            }
        };
        let own = rustix::process::geteuid().as_raw();
        if !meta.is_file() || meta.uid() != own || meta.mode() & 0o022 != 0 {
            return Err(strange(
                "it is not a file that only this user can write".to_owned(),
            ));
        }
        if meta.len() > FILE_MAX {
            return Err(strange(format!("it is longer than {FILE_MAX} bytes")));
        }
        let text = fs::read_to_string(&self.path).map_err(|source| StateError::File {
            path: self.path.clone(),
            source,
        })?;
        let lines = text.lines().map(str::parse);
        lines
            .collect::<Result<_, _>>()
            .map_err(|error| strange(format!("{error}")))
    }
}

/// The path with this at its end.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switcher::Process;
    use tempfile::TempDir;

    #[test]
    fn what_a_killed_controller_left_is_put_back() {
        let dir = TempDir::new().expect("a folder");
        let cpus = dir.path().join("cpuset.cpus");
        fs::write(&cpus, "0\n").expect("a file");
        let path = dir.path().join("state");
        let state = State::take(&path).expect("nobody has it");
        assert!(matches!(State::take(&path), Err(StateError::Held(_))));
        assert_eq!(state.put_back().expect("nothing to do").count, 0);
        let restore = Restore::Cgroup {
            folder: dir.path().to_owned(),
            cpus: "0-3".to_owned(),
        };
        state.save(&[restore]).expect("a file");
        drop(state);
        let state = State::take(&path).expect("nobody has it");
        assert_eq!(state.put_back().expect("it is put back").count, 1);
        assert_eq!(fs::read_to_string(&cpus).expect("a file"), "0-3\n");
        assert_eq!(state.put_back().expect("nothing to do").count, 0);
        drop(state);
        // In order there is nothing; of a name that nobody used nothing is known, nor left behind.
        let state = State::find(&path).expect("a controller had it");
        assert_eq!(state.put_back().expect("nothing to do").count, 0);
        let other = dir.path().join("sate");
        assert!(matches!(State::find(&other), Err(StateError::Unknown(_))));
        assert!(!dir.path().join("sate.lock").exists());
    }

    #[test]
    fn what_would_not_be_read_as_it_is_meant_is_not_written() {
        use std::os::unix::ffi::OsStrExt;
        let dir = TempDir::new().expect("a folder");
        let path = dir.path().join("state");
        let state = State::take(&path).expect("nobody has it");
        let group = |folder: &[u8]| Restore::Cgroup {
            folder: std::ffi::OsStr::from_bytes(folder).into(),
            cpus: "0-3".to_owned(),
        };
        state.save(&[group(b"/sys/fs/cgroup/web")]).expect("a file");
        let before = state.left().expect("it is read");
        // More processes than are read of a file.
        let processes = (0..400_000).map(|pid| Process { pid, start: 12_345 });
        let many = Restore::Tasks {
            processes: processes.collect(),
            cpus: "0-3".parse().expect("a list"),
        };
        for refused in [
            group(b"web.slice"),
            group(b"/sys/\xff"),
            group(b"/sys/a\tb"),
            group(b"/sys/a\nb"),
            many,
        ] {
            let error = state.save(&[refused]).expect_err("it is refused");
            assert!(matches!(error, StateError::Unwritable { .. }), "{error:?}");
        }
        assert_eq!(state.left().expect("it is read"), before);
    }

    #[test]
    fn what_another_process_has_is_waited_for() {
        let dir = TempDir::new().expect("a folder");
        let cpus = dir.path().join("cpuset.cpus");
        let path = dir.path().join("state");
        // Its guardian puts it back; or it is killed as well, and nobody has.
        for puts_back in [true, false] {
            fs::write(&cpus, "0\n").expect("a file");
            let state = State::take(&path).expect("nobody has it");
            let restore = Restore::Cgroup {
                folder: dir.path().to_owned(),
                cpus: "0-3".to_owned(),
            };
            state.save(&[restore]).expect("a file");
            let other = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(1200));
                if puts_back {
                    state.put_back().expect("it is put back");
                }
            });
            let put_back = State::put_back_left(&path).expect("it is let go");
            assert_eq!(put_back.count, usize::from(!puts_back));
            assert_eq!(fs::read_to_string(&cpus).expect("a file"), "0-3\n");
            other.join().expect("no panic");
        }
    }

    #[test]
    fn a_file_that_is_not_believed_stays() {
        let dir = TempDir::new().expect("a folder");
        let path = dir.path().join("state");
        let state = State::take(&path).expect("nobody has it");
        fs::write(&path, "format /dev/sda\n").expect("a file");
        let error = state.put_back().expect_err("strange").to_string();
        assert!(error.contains("format /dev/sda"), "{error}");
        fs::write(&path, "").expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(&path, mode).expect("its mode");
        assert!(matches!(state.put_back(), Err(StateError::Strange { .. })));
        assert!(path.exists());
        assert!(State::take(&dir.path().join("none/state")).is_err());
    }
}
