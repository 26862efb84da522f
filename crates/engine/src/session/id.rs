//! The session id: the slot, which finds the session, and the secret, which proves it.
//!
//! As text it is 40 lowercase hexadecimal digits, 8 for the slot and 32 for the secret. Of the
//! forms that need no escaping in a cookie this is not the shortest, but every id has exactly one
//! spelling, and both directions are loops without branches that the compiler turns into vector
//! code.

use core::fmt;
use core::hint::black_box;

/// Names one session and proves the right to use it.
///
/// Its `Debug` shows the slot only, so that no log hands out a session.
#[derive(Clone, Copy)]
pub struct SessionId {
    pub(super) slot: u32,
    pub(super) secret: Secret,
}

/// The random bits of an id, high half first. Two words rather than one `u128`, whose alignment
/// would make an optional id half as large again in a cohort's columns.
pub(super) type Secret = [u64; 2];

/// Are both secrets the same? Takes the same time wherever they differ, so that timing tells a
/// guesser nothing.
#[inline]
pub(super) fn same_secret(a: Secret, b: Secret) -> bool {
    // Without the black box the compiler may compare the halves one after the other.
    black_box((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0
}

impl SessionId {
    /// Length of an id as text, in bytes.
    pub const TEXT_LEN: usize = 40;

    pub(super) fn new(slot: u32, random: u128) -> SessionId {
        SessionId {
            slot,
            secret: [(random >> 64) as u64, random as u64],
        }
    }

    /// Reads an id from a cookie's value. Only what [`to_text`](Self::to_text) writes is one:
    /// `None` for any other length, for capitals, and for anything around it.
    pub fn parse(text: &[u8]) -> Option<SessionId> {
        let text: &[u8; Self::TEXT_LEN] = text.try_into().ok()?;
        let mut digits = [0; Self::TEXT_LEN];
        let mut valid = true;
        for (digit, &byte) in digits.iter_mut().zip(text) {
            let decimal = byte.wrapping_sub(b'0');
            let letter = byte.wrapping_sub(b'a');
            valid &= (decimal < 10) | (letter < 6);
            *digit = if decimal < 10 {
                decimal
            } else {
                letter.wrapping_add(10)
            };
        }
        let mut bytes = [0; Self::TEXT_LEN / 2];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1] & 15;
        }
        let [s0, s1, s2, s3, random @ ..] = bytes;
        let slot = u32::from_be_bytes([s0, s1, s2, s3]);
        valid.then(|| SessionId::new(slot, u128::from_be_bytes(random)))
    }

    /// The id as it stands in a cookie.
    pub fn to_text(self) -> [u8; Self::TEXT_LEN] {
        let mut bytes = [0; Self::TEXT_LEN / 2];
        bytes[..4].copy_from_slice(&self.slot.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.secret[0].to_be_bytes());
        bytes[12..].copy_from_slice(&self.secret[1].to_be_bytes());
        let mut text = [0; Self::TEXT_LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
            pair[0] = hex_digit(byte >> 4);
            pair[1] = hex_digit(byte & 15);
        }
        text
    }
}

#[inline]
fn hex_digit(value: u8) -> u8 {
    value + if value < 10 { b'0' } else { b'a' - 10 }
}

impl PartialEq for SessionId {
    fn eq(&self, other: &SessionId) -> bool {
        self.slot == other.slot && same_secret(self.secret, other.secret)
    }
}

impl Eq for SessionId {}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId(slot {}, secret hidden)", self.slot)
    }
}
