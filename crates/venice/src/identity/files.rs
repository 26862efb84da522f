//! Files that are made once.
//!
//! Root works in folders of others, too: `rhythm venice token` in that of the service's user. What
//! is there is that user's to choose, links among it, so nothing is made or changed there with more
//! than that user's own rights ([`as_owner`]); and so what is made is that user's.

use rustix::fs::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;

/// Does something in a folder, which need not be there, as whose it is: where this is root, and the
/// folder, or the one that it is in, is another's, a thread takes that user's rights for it.
///
/// # Errors
/// These cannot be taken, or it cannot be seen whose the folder is.
pub(super) fn as_owner<T: Send>(folder: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let owner = match rustix::process::geteuid().is_root() {
        true => other_owner(folder)?,
        false => None,
    };
    let Some((user, group)) = owner else {
        return Ok(work());
    };
    let work = move || {
        take_rights(user, group)?;
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("owner".into());
        let thread = thread.spawn_scoped(scope, work)?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// This thread's rights are a user's from now on, but that it finds and reads what is there: the
/// folders of services whose users come and go are below one of root's (systemd.exec(5),
/// *DynamicUser*).
fn take_rights(user: Uid, group: Gid) -> io::Result<()> {
    let kept = capabilities(None)?.permitted & CapabilitySet::DAC_READ_SEARCH;
    set_keep_capabilities(true)?;
    // In this order: without the user root there is no right to the others.
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}

/// Whose a folder is that root does not have for itself: its own, or that of the one that it is in,
/// of what there is. A link is whose the link is.
fn other_owner(folder: &Path) -> io::Result<Option<(Uid, Gid)>> {
    let whole = std::path::absolute(folder)?;
    let mut seen = 0;
    for path in whole.ancestors() {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let behind = found.is_symlink().then(|| fs::metadata(path).ok());
        for found in [Some(found), behind.flatten()].into_iter().flatten() {
            if found.uid() != 0 {
                return Ok(Some((
                    Uid::from_raw(found.uid()),
                    Gid::from_raw(found.gid()),
                )));
            }
        }
        seen += 1;
        if seen == 2 {
            break;
        }
    }
    Ok(None)
}

/// Makes a folder that its owner alone may use, and those above it; one that there is stays.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    match path.is_dir() {
        true => Ok(()),
        false => DirBuilder::new().recursive(true).mode(0o700).create(path),
    }
}

/// Writes a file that is not there yet, whole and synced.
pub(super) fn write_new(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a file is of no use to anybody.
        let _ = fs::remove_file(path);
    }
    written?;
    sync_above(path)
}

/// Has the names in a file's folder be on disk.
pub(super) fn sync_above(path: &Path) -> io::Result<()> {
    match path.parent().filter(|above| !above.as_os_str().is_empty()) {
        Some(above) => File::open(above)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, lchown, symlink};

    /// A user and a group that nobody needs to have.
    const OTHER: (u32, u32) = (61_234, 61_235);

    #[test]
    fn root_does_in_folders_of_others_what_these_could_do() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let of_root = tempfile::tempdir().expect("a folder");
        let kept = of_root.path().join("kept");
        fs::write(&kept, "kept").expect("a file");
        // Below one of root's, which that user does not get through.
        let above = tempfile::tempdir().expect("a folder");
        let its = above.path().join("its");
        fs::create_dir(&its).expect("a folder");
        chown(&its, Some(OTHER.0), Some(OTHER.1)).expect("a folder of another");
        let below = its.join("one/two");
        let made = as_owner(&below, || {
            folder(&below)?;
            write_new(&below.join("new"), 0o600, "new")?;
            // What it may not is not done.
            Ok::<_, io::Error>(File::create(&kept).is_err() && fs::remove_file(&kept).is_err())
        });
        assert!(made.expect("rights").expect("files"));
        for path in [&below, &below.join("new")] {
            let found = fs::symlink_metadata(path).expect("it is there");
            assert_eq!((found.uid(), found.gid()), OTHER);
        }
        // A link of that user leads to a folder of root.
        let link = its.join("link");
        symlink(of_root.path(), &link).expect("a link");
        lchown(&link, Some(OTHER.0), Some(OTHER.1)).expect("its link");
        let made = as_owner(&link, || write_new(&link.join("new"), 0o600, "new"));
        assert!(made.expect("rights").is_err() && !of_root.path().join("new").exists());
        // The caller is root as before.
        assert!(rustix::process::geteuid().is_root());
        assert!(as_owner(of_root.path(), || fs::write(&kept, "").is_ok()).expect("rights"));
    }
}
