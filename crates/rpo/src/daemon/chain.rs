//! Errors as the log has them.

use std::error::Error;
use std::fmt;

/// An error with its causes.
pub(super) struct Chain<'a>(pub(super) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(out, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
