//! What is allowed: the options of a server, and the sums of what they let it take.

pub(crate) mod memory;
pub(crate) mod open_files;
pub(crate) mod options;
