//! Why a server's CPUs are not switched, and what helps.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Why a server's CPUs are not switched.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The system refused.
    #[error("cannot {what} {path}{}", hint(.what, .source))]
    System {
        /// `read`, `write`, ...
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A thread's CPUs cannot be set.
    #[error("cannot set the CPUs of thread {thread}{}", hint("set", .source))]
    Thread {
        /// Its id.
        thread: u32,
        /// Why.
        source: io::Error,
    },
    /// It is not what can be switched.
    #[error("{0}")]
    Unfit(String),
}

impl SwitchError {
    pub(super) fn system(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SwitchError {
        move |source| SwitchError::System {
            what,
            path: path.to_owned(),
            source,
        }
    }
}

/// What helps, where that is known.
fn hint(what: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => ", which is gone: did the server stop?",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem if what != "read" => {
            ": it is not this user's to change; run it as root, as docs/rpo.md tells, or have the \
             group delegated"
        }
        ErrorKind::ResourceBusy if what == "write" => {
            ": groups below it, or tasks in it, need CPUs that it would lose"
        }
        _ => "",
    }
}
