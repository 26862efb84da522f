//! The hash of a key: SipHash-1-3 under a secret of the store.
//!
//! Keys come from whoever can reach the server, so the hash must not let them choose keys that
//! collide. No attack on SipHash is known; of the faster keyed hashes some were broken (aHash,
//! gxhash) and none has as long a history. It costs some 10 ns a key, where a command costs several
//! hundred.

use siphasher::sip::SipHasher13;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The hash of one key in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(pub(super) u64);

impl Hash {
    /// In the place of a hash that nobody asks for.
    pub(crate) const NONE: Hash = Hash(0);

    /// The halves, each of which names a bucket.
    #[inline]
    pub(super) fn halves(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> 32) as u32)
    }

    /// The bits that are kept in the table, so that few items are compared in vain: the highest,
    /// which name a bucket last. Never 0.
    #[inline]
    pub(super) fn tag(self) -> u8 {
        ((self.0 >> 56) as u8).max(1)
    }
}

/// The secret of a store.
pub(super) struct Secret(u64, u64);

impl Secret {
    /// The given secret, for runs that must repeat, or a random one.
    pub(super) fn new(given: Option<[u64; 2]>) -> Secret {
        match given {
            Some([first, second]) => Secret(first, second),
            None => {
                // The only randomness of the standard library: each has keys of its own.
                let random = || RandomState::new().hash_one(0_u64);
                Secret(random(), random())
            }
        }
    }

    pub(super) fn hash(&self, key: &[u8]) -> Hash {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write(key);
        Hash(hasher.finish())
    }
}
