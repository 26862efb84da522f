//! Why a figure was not made.

use std::fmt::Display;
use std::io;
use thiserror::Error;

/// Why a figure was not made; the others are.
#[derive(Debug, Error)]
pub(super) enum Unmade {
    /// This machine has not what it needs.
    #[error("{0}")]
    Lacking(String),
    /// Something went wrong, or a result was.
    #[error("{0}")]
    Failed(String),
}

impl Unmade {
    /// Of what the system says to something.
    pub(super) fn of(what: impl Display) -> impl FnOnce(io::Error) -> Unmade {
        move |error| Unmade::Failed(format!("{what}: {error}"))
    }
}
