//! The tokens that were given and not used yet: a file each, named by a digest of the secret, so
//! that who reads the folder cannot join. One is used by whom its removal succeeds for.

use super::files;
use super::token::{SECRET_BYTES, hex};
use crate::name::NodeName;
use aws_lc_rs::digest::{SHA256, digest};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a token is no good.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It is used, or was never given.
    #[error(
        "the token was used, or is not this monitor's: have another (rhythm venice token), one \
         for each node"
    )]
    NotKnown,
    /// It is too old.
    #[error("the token has expired: have another (rhythm venice token)")]
    Expired,
    /// The folder of tokens.
    #[error("the monitor cannot look after its tokens: {0}")]
    System(#[from] io::Error),
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Tokens {
    folder: PathBuf,
}

impl Tokens {
    pub(super) fn new(folder: PathBuf) -> Tokens {
        Tokens { folder }
    }

    fn path(&self, secret: &[u8; SECRET_BYTES]) -> PathBuf {
        self.folder.join(hex(digest(&SHA256, secret).as_ref()))
    }

    /// Notes a token, and forgets those that nobody used in time. Times are since 1970.
    pub(super) fn add(
        &self,
        secret: &[u8; SECRET_BYTES],
        node: &NodeName,
        valid: Duration,
        now: Duration,
    ) -> io::Result<()> {
        files::folder(&self.folder)?;
        self.sweep(now);
        let until = now.saturating_add(valid).as_secs();
        files::write_new(&self.path(secret), 0o600, &format!("{until} {node}\n"))
    }

    /// Whose a token is, which is good.
    pub(super) fn check(
        &self,
        secret: &[u8; SECRET_BYTES],
        now: Duration,
    ) -> Result<NodeName, TokenError> {
        let (until, node) = read(&self.path(secret)).map_err(missing)?;
        match now < until {
            true => Ok(node),
            false => Err(TokenError::Expired),
        }
    }

    /// Uses a token that is good: no other call does.
    pub(super) fn take(&self, secret: &[u8; SECRET_BYTES]) -> Result<(), TokenError> {
        fs::remove_file(self.path(secret)).map_err(missing)?;
        // What comes of it is not to be before it is certain that it is gone.
        Ok(fs::File::open(&self.folder)?.sync_all()?)
    }

    /// Removes what has expired a day ago: until then who comes too late is told so.
    fn sweep(&self, now: Duration) {
        let Ok(all) = fs::read_dir(&self.folder) else {
            return;
        };
        for path in all.flatten().map(|entry| entry.path()) {
            let is_old = |(until, _): (Duration, NodeName)| {
                until.saturating_add(Duration::from_secs(86_400)) < now
            };
            if read(&path).is_ok_and(is_old) {
                // The next one tries again.
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn missing(error: io::Error) -> TokenError {
    match error.kind() {
        ErrorKind::NotFound => TokenError::NotKnown,
        _ => TokenError::System(error),
    }
}

fn read(path: &Path) -> io::Result<(Duration, NodeName)> {
    let text = fs::read_to_string(path)?;
    let parts = text.trim().split_once(' ');
    parts
        .and_then(|(until, node)| Some((until.parse().ok()?, node.parse().ok()?)))
        .map(|(until, node)| (Duration::from_secs(until), node))
        .ok_or_else(|| io::Error::other(format!("{} is no token", path.display())))
}
