//! Who belongs to a monitor, or to a device that others use: nodes that share a secret with it.
//!
//! Each side proves that it has the secret, without telling it: it says an HMAC (RFC 2104, with
//! SHA-256) over numbers that both have drawn for this connection. What is proven is who began the
//! connection; nobody protects what goes on it afterwards, so the network must be one that is
//! trusted.

use hmac::{Hmac, KeyInit, Mac};
use rhythm_net::files::{NotPrivate, open_private};
use sha2::Sha256;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fewest and most bytes of a secret.
const BYTES: std::ops::RangeInclusive<usize> = 16..=4096;

/// A number that one side draws for a connection.
pub type Nonce = [u8; 32];
/// What shows that a side has the secret.
pub type Proof = [u8; 32];

/// What nodes prove link tests by that show certificates: their monitor gives it to them. It is in
/// no log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProbeKey(pub Nonce);

impl fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeKey(..)")
    }
}

/// A secret that the nodes and their monitor share. It is in no log.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

/// Who proves something to whom: a proof of one side is none of the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prover {
    /// An agent, to its monitor.
    Agent,
    /// A monitor, to an agent.
    Monitor,
    /// A datagram between agents.
    Probe,
    /// A front end, to a device's node.
    FrontEnd,
    /// A device's node, to a front end.
    Device,
}

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The system.
    #[error("{0}: cannot read the shared secret: {1}")]
    System(PathBuf, io::Error),
    /// Others may read it.
    #[error("{0}: others than its owner can read the shared secret; say chmod 600 {0}")]
    Readable(PathBuf),
    /// It is none.
    #[error(
        "{0}: a shared secret has 16 to 4096 bytes, and this file has {1}; make one by \
         `head -c 32 /dev/urandom | base64 > FILE`"
    )]
    Length(PathBuf, usize),
}

impl Secret {
    /// Reads the secret from a file that nobody but its owner can read; white space at its end does
    /// not count.
    ///
    /// # Errors
    /// There is none that is good.
    pub fn read(path: &Path) -> Result<Secret, SecretError> {
        let system = |error| SecretError::System(path.to_owned(), error);
        let file = open_private(path).map_err(|error| match error {
            NotPrivate::System(error) => system(error),
            NotPrivate::Shared => SecretError::Readable(path.to_owned()),
        })?;
        let mut bytes = Vec::new();
        let most = *BYTES.end() as u64 + 2;
        file.take(most).read_to_end(&mut bytes).map_err(system)?;
        let secret = bytes.trim_ascii_end();
        if !BYTES.contains(&secret.len()) {
            return Err(SecretError::Length(path.to_owned(), secret.len()));
        }
        Ok(Secret(secret.into()))
    }

    /// The secret of these bytes.
    pub fn of(bytes: &[u8]) -> Secret {
        Secret(bytes.into())
    }

    fn mac(&self, prover: Prover, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = match Hmac::<Sha256>::new_from_slice(&self.0) {
            Ok(mac) => mac,
            Err(_) => unreachable!("HMAC takes keys of any length"),
        };
        mac.update(match prover {
            Prover::Agent => b"rhythm venice 1 agent\0  ",
            Prover::Monitor => b"rhythm venice 1 monitor\0",
            Prover::Probe => b"rhythm venice 1 probe\0  ",
            Prover::FrontEnd => b"rhythm device 1 front\0  ",
            Prover::Device => b"rhythm device 1 node\0   ",
        });
        parts.iter().for_each(|part| mac.update(part));
        mac
    }

    /// A proof over parts, which have lengths of their own.
    pub fn prove(&self, prover: Prover, parts: &[&[u8]]) -> Proof {
        self.mac(prover, parts).finalize().into_bytes().into()
    }

    /// Whether it is a proof, or the beginning of one; compared in constant time.
    pub fn is_proven(&self, prover: Prover, parts: &[&[u8]], proof: &[u8]) -> bool {
        proof.len() >= 16 && self.mac(prover, parts).verify_truncated_left(proof).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_proof_is_of_one_side_over_these_parts_with_this_secret() {
        let secret = Secret::of(b"0123456789abcdef");
        let parts: &[&[u8]] = &[&[1; 32], &[2; 32]];
        let proof = secret.prove(Prover::Agent, parts);
        assert!(secret.is_proven(Prover::Agent, parts, &proof));
        assert!(secret.is_proven(Prover::Agent, parts, &proof[..16]));
        assert!(!secret.is_proven(Prover::Agent, parts, &proof[..15]));
        assert!(!secret.is_proven(Prover::Monitor, parts, &proof));
        assert!(!secret.is_proven(Prover::Agent, &[&[2; 32], &[1; 32]], &proof));
        let other = Secret::of(b"0123456789abcdeg");
        assert!(!other.is_proven(Prover::Agent, parts, &proof));
    }

    #[test]
    fn a_secret_that_others_can_read_or_that_is_short_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        let refused = |text: &str, mode: u32| {
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
            Secret::read(&path).err().map(|error| error.to_string())
        };
        assert_eq!(refused("0123456789abcdef\n", 0o600), None);
        assert_eq!(refused("0123456789abcdef", 0o400), None);
        let said = refused("0123456789abcdef", 0o640).expect("an error");
        assert!(said.contains("chmod 600"), "{said}");
        let said = refused("0123456789abcde\n\n", 0o600).expect("an error");
        assert!(said.contains("this file has 15"), "{said}");
        assert!(!said.contains("0123"), "{said}");
        assert!(refused(&"x".repeat(5000), 0o600).is_some());
    }
}
