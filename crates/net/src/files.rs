//! Files that somebody named: a password, a certificate, a ring of records, a shared secret.
//!
//! They are opened where a server starts or loads something, which is never to wait for ever: what
//! is no regular file (a pipe that nobody writes, a device without an end) is refused.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use thiserror::Error;

/// Opens a regular file, to be read.
///
/// # Errors
/// What the system said, or that it is none.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with(path, 0)
}

/// Opens a regular file, to be read, at whose path there is no link to it.
///
/// # Errors
/// As of [`open_regular`], and where it is a link.
pub fn open_regular_itself(path: &Path) -> io::Result<File> {
    open_with(path, libc::O_NOFOLLOW)
}

fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    // A pipe without a writer is waited for as it is opened, otherwise.
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | flags)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// Why no file with a secret was opened.
#[derive(Debug, Error)]
pub enum NotPrivate {
    /// It cannot be read, or is no regular file.
    #[error("{0}")]
    System(#[from] io::Error),
    /// Its permissions let others than its owner do something with it.
    #[error("others than its owner can read it")]
    Shared,
}

/// Opens a regular file that only its owner may do anything with, as one with a secret is to be.
///
/// The service manager hands secrets over in a folder of its own (systemd.exec(5), *CREDENTIALS*),
/// which are root's, and read by the service's user by an access list: that shows as what the group
/// may do.
///
/// # Errors
/// [`NotPrivate`].
pub fn open_private(path: &Path) -> Result<File, NotPrivate> {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
    open_private_or_in(path, credentials.as_ref().map(Path::new))
}

fn open_private_or_in(path: &Path, credentials: Option<&Path>) -> Result<File, NotPrivate> {
    let file = open_regular(path)?;
    let is_credential = || {
        let folder = credentials?.canonicalize().ok()?;
        Some(path.canonicalize().ok()?.starts_with(folder))
    };
    let others = match is_credential() {
        Some(true) => 0o037,
        _ => 0o077,
    };
    match file.metadata()?.mode() & others {
        0 => Ok(file),
        _ => Err(NotPrivate::Shared),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn nothing_is_waited_for_and_secrets_are_ones_own() {
        let folder = std::env::temp_dir().join(format!("rhythm-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [file, pipe] = ["file", "pipe"].map(|name| folder.join(name));
        std::fs::write(&file, "12345").unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let private = |mode| {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            open_private(&file).is_ok()
        };
        let of_owner = [0o600, 0o400].map(private);
        let of_others = [0o640, 0o604, 0o620].map(private);
        // What the service manager hands over its group seems to read.
        let handed_over = |mode, folder| {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            open_private_or_in(&file, Some(folder)).is_ok()
        };
        let credentials = [0o440, 0o444, 0o460].map(|mode| handed_over(mode, &folder));
        let elsewhere = handed_over(0o440, Path::new("/proc"));
        let opened = open_regular(&file).is_ok();
        let none = folder.join("none");
        let others = [&*pipe, &folder, Path::new("/dev/zero"), &none].map(open_regular);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(opened && others.iter().all(Result::is_err), "{others:?}");
        assert_eq!((of_owner, of_others), ([true; 2], [false; 3]));
        assert_eq!((credentials, elsewhere), ([true, false, false], false));
    }
}
