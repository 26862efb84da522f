//! A hash that is the same in every process: checksums of what is sent and written, and numbers
//! that stand for names.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// SipHash-1-3 under a key: against accidents, and where the key is not known, against bytes that
/// pretend to have one. Each use has a key of its own, so that what is meant for one is nothing to
/// another.
pub(crate) fn checksum(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key[0], key[1]);
    hasher.write(bytes);
    hasher.finish()
}
