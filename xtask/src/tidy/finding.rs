//! What a check finds.

use std::fmt;

/// A place and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the repository's root.
    pub(crate) file: String,
    /// From 1.
    pub(crate) line: usize,
    /// What is wrong, and what mends it.
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}
