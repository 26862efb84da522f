//! Files that are made once.

use rustix::fs::{Gid, Uid};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Makes a folder that its owner alone may use, and those above it; one that there is stays.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    like_above(path)
}

/// Writes a file that is not there yet, whole and synced.
pub(super) fn write_new(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| like_above(path))
        .and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a file is of no use to anybody.
        let _ = fs::remove_file(path);
    }
    written?;
    match path.parent() {
        Some(above) => File::open(above)?.sync_all(),
        None => Ok(()),
    }
}

/// What root makes in a folder of a service's user is that user's, as if the service had made it.
fn like_above(path: &Path) -> io::Result<()> {
    let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) else {
        return Ok(());
    };
    let above = fs::metadata(above)?;
    if rustix::process::geteuid().is_root() && above.uid() != 0 {
        let (user, group) = (Uid::from_raw(above.uid()), Gid::from_raw(above.gid()));
        rustix::fs::chown(path, Some(user), Some(group))?;
    }
    Ok(())
}
