//! Files with the secret of a loan.

use anyhow::{Context, Result, bail};
use rhythm_net::files::{NotPrivate, open_private};
use rhythm_venice::loan::LoanKey;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const KEY_BYTES: usize = 32;

/// Reads a key: 64 hexadecimal digits, in a file that others cannot read.
pub(super) fn read(path: &Path) -> Result<LoanKey> {
    let name = path.display();
    let file = match open_private(path) {
        Ok(file) => file,
        Err(NotPrivate::Shared) => bail!("others may read the key {name}: chmod 600 {name}"),
        Err(NotPrivate::System(error)) => {
            return Err(error).with_context(|| {
                format!(
                    "cannot read the key {name}: `rhythm venice lend` makes one where there is none"
                )
            });
        }
    };
    let mut text = String::new();
    file.take(1024)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read the key {name}"))?;
    parse(text.trim()).with_context(|| {
        format!("{name} is no key: it is to have 64 hexadecimal digits (openssl rand -hex 32)")
    })
}

fn parse(digits: &str) -> Option<LoanKey> {
    let mut key = [0; KEY_BYTES];
    // Numbers may begin with a +, too.
    if digits.len() != 2 * KEY_BYTES || !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(LoanKey(key))
}

/// Reads a key, or makes one where there is no such file.
pub(super) fn read_or_make(path: &Path) -> Result<LoanKey> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(mut file) => {
            let written = random().and_then(|digits| Ok(writeln!(file, "{digits}")?));
            if let Err(error) = written {
                let _ = fs::remove_file(path);
                return Err(error.context(format!("cannot write the key {}", path.display())));
            }
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => bail!("cannot make the key {}: {error}", path.display()),
    }
    read(path)
}

fn random() -> Result<String> {
    let mut key = [0; KEY_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_kept_from_others() {
        let name = format!("rhythm-venice-key-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        assert!(read(&path).is_err());
        let key = read_or_make(&path).unwrap();
        assert!(read_or_make(&path).unwrap() == key && read(&path).unwrap() == key);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for wrong in ["", "00", &"g".repeat(64), &"+f".repeat(32), &"é".repeat(32)] {
            fs::write(&path, wrong).unwrap();
            assert!(read(&path).is_err(), "{wrong}");
        }
        fs::remove_file(&path).unwrap();
    }
}
