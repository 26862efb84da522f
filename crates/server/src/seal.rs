//! Seals: keyed hashes by which the server knows again what it has given to browsers, so that it
//! need not keep it.

use hmac::{Hmac, KeyInit, Mac};
use rhythm_engine::session::SessionId;
use rhythm_engine::settings::Secret;
use sha2::{Digest, Sha256};
use std::hint::black_box;

/// What a seal is for: one that is made for one thing is none for another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// A CSRF token.
    Token = 1,
    /// A message for the next page.
    Flash = 2,
    /// The key of a session in the store that several machines share.
    Key = 3,
    /// What is under it.
    Record = 4,
}

/// The key that a secret stands for.
pub(crate) fn key_of(secret: &Secret) -> u128 {
    let mut hash = Sha256::new();
    hash.update(b"rhythm: key of seals\0");
    hash.update(secret.bytes());
    let hash = hash.finalize();
    let first = hash.first_chunk().expect("it has more bytes");
    u128::from_be_bytes(*first)
}

/// The key of all seals.
#[derive(Clone, Debug)]
pub(crate) struct Sealer(Hmac<Sha256>);

impl Sealer {
    /// That of a key, which all who serve the same sessions have in common.
    pub(crate) fn new(key: u128) -> Sealer {
        let key = key.to_be_bytes();
        Sealer(Hmac::new_from_slice(&key).expect("a key of any length will do"))
    }

    /// The seal of something that is whose who has this id.
    pub(crate) fn seal(&self, purpose: Purpose, of: &SessionId, what: &[u8]) -> u128 {
        let mut hash = self.0.clone();
        hash.update(&[purpose as u8]);
        hash.update(&of.to_text());
        hash.update(what);
        let hash = hash.finalize().into_bytes();
        let first = hash.first_chunk().expect("it has more bytes");
        u128::from_be_bytes(*first)
    }
}

/// Whether two seals are the same. It takes the same time wherever they differ.
pub(crate) fn is_same(one: u128, other: u128) -> bool {
    black_box(one ^ other) == 0
}
