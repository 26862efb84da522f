//! Files that a backend's table names, whole: a certificate, a script. They are read as a service
//! is loaded ([`rhythm_net::files`]); what is longer than such a file is, is refused.

use rhythm_net::files::open_regular;
use std::io::{self, Read};
use std::path::Path;

/// What is in a regular file of so many bytes at most.
///
/// # Errors
/// What the system said, that it is none, or longer.
pub(crate) fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
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

    #[test]
    fn what_is_longer_is_refused() {
        let path = std::env::temp_dir().join(format!("rhythm-read-{}", std::process::id()));
        std::fs::write(&path, "12345").unwrap();
        let read = [5, 4].map(|most| read_regular(&path, most).ok());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, [Some(b"12345".to_vec()), None]);
        assert!(read_regular(Path::new("/dev/zero"), 4).is_err());
    }
}
