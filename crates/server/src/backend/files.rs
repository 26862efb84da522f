//! Files that a backend's table names: a password, a certificate, a script.
//!
//! They are read as a service is loaded, which is never to wait for ever: what is no regular file
//! (a pipe that nobody writes, a device without an end) is refused, and so is what is longer than
//! such a file is.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file.
///
/// # Errors
/// What the system said, or that it is none.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    // A pipe without a writer is waited for as it is opened, otherwise.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// What is in a regular file of so many bytes at most.
///
/// # Errors
/// What the system said, that it is none, or longer.
pub(super) fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?
        .take(bytes_max + 1)
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::other(format!(
            "it is longer than {bytes_max} bytes"
        ))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn nothing_is_waited_for() {
        let folder = std::env::temp_dir().join(format!("rhythm-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [file, pipe] = ["file", "pipe"].map(|name| folder.join(name));
        std::fs::write(&file, "12345").unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read_regular(&file, 5).unwrap(), b"12345");
        assert!(read_regular(&file, 4).is_err());
        for path in [
            &*pipe,
            &folder,
            Path::new("/dev/zero"),
            &folder.join("none"),
        ] {
            assert!(read_regular(path, 4).is_err(), "{}", path.display());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
