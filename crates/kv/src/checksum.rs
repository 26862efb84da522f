//! A hash that is the same in every process: checksums of what is sent and written, and numbers
//! that stand for names.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// SipHash-1-3 under a key: against accidents, and where the key is not known, against bytes that
/// pretend to have one. What may come in one place, as a keyspace's messages and its refusals do on
/// one line, has a key for each kind, so that none is taken for the other. Elsewhere keys may be
/// the same (`[0, 0]` for what a ring was told, for ranks, and for nodes' numbers; `[3, 0]` for a
/// keyspace's refusals, and for whose a journal is): those are compared with their like alone.
pub(crate) fn checksum(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key[0], key[1]);
    hasher.write(bytes);
    hasher.finish()
}
