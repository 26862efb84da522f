//! A number of what a program found.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The same for the same, by the same program.
pub(super) fn number(found: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    found.hash(&mut hasher);
    hasher.finish()
}
