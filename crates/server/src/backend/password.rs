//! Passwords of backends: read from files as a service is loaded, and shown by nothing.

use rhythm_engine::settings::BackendConfig;
use rhythm_net::files::open_regular;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A password, which nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Password(pub(super) String);

/// What to do where a server asks for a password that is not there.
pub(super) const PASSWORD_CURE: &str = "put the password into a file, and name that as \
     `password_file`, by its path from the service's folder on";

/// Most bytes of a file with a password.
const FILE_MAX: u64 = 4096;

/// The first line of a file with a secret.
///
/// # Errors
/// It cannot be read, or the line is empty.
pub fn first_line(path: &Path) -> Result<String, String> {
    let read = || {
        let mut text = String::new();
        let file = open_regular(path)?;
        file.take(FILE_MAX).read_to_string(&mut text)?;
        let line = text.lines().next().unwrap_or_default();
        match line.is_empty() {
            true => Err(io::Error::other("its first line is empty")),
            false => Ok(line.to_owned()),
        }
    };
    read().map_err(|why| why.to_string())
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a password")
    }
}

/// The password of a backend, if it has one, as its file had it when the service was loaded last:
/// for connections from then on.
#[derive(Debug)]
pub(super) struct LoadedPassword(Mutex<Option<Password>>);

impl LoadedPassword {
    pub(super) fn new(password: Option<Password>) -> LoadedPassword {
        LoadedPassword(Mutex::new(password))
    }

    /// What the file says that a backend's table names under this key, or else what its URL says.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub(super) fn read(
        config: &BackendConfig,
        key: &str,
        of_url: Option<Password>,
    ) -> Result<LoadedPassword, String> {
        let file = config.text(key);
        if file.is_empty() {
            return Ok(LoadedPassword::new(of_url));
        }
        if of_url.is_some() {
            return Err(format!(
                "there is a password in `url`, and `{key}` names another"
            ));
        }
        let path = config.folder.join(file);
        let password = first_line(&path)
            .map_err(|why| format!("cannot read `{key}`, {}: {why}", path.display()))?;
        Ok(LoadedPassword::new(Some(Password(password))))
    }

    /// The password, if there is one.
    pub(super) fn get(&self) -> Option<Password> {
        let password = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        password.clone()
    }

    /// It is this one from now on.
    pub(super) fn renew(&self, by: &LoadedPassword) {
        let mut password = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *password = by.get();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_of_a_file() {
        let path = std::env::temp_dir().join(format!("rhythm-password-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            first_line(&path)
        };
        assert_eq!(read(" a b \r\nmore\n").unwrap(), " a b ");
        assert!(read("\nmore").is_err());
        std::fs::remove_file(&path).unwrap();
        // One without an end.
        assert!(first_line(Path::new("/dev/zero")).is_err());
        assert!(first_line(Path::new("/nowhere")).is_err());
    }
}
