//! The process's limit of open files, which is its limit of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Raises the limit of open files as far as the system allows without privileges, and returns it.
///
/// The usual limit of 1024 is kept low for programs that use `select`; none of ours does.
///
/// # Errors
///
/// What the system said, which it has no common reason to.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        )?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_maximum() {
        let raised = raise_open_files().expect("raising up to the maximum needs no privilege");
        assert_eq!(
            getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
            raised
        );
        assert_eq!(raise_open_files().expect("as before"), raised);
    }
}
