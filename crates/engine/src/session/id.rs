//! The session id: the slot, which finds the session, and the secret, which proves it.
//!
//! As text it is 40 lowercase hexadecimal digits, 8 for the slot and 32 for the secret. Of the
//! forms that need no escaping in a cookie this is not the shortest, but every id has exactly one
//! spelling, and eight digits at a time fit one word: a digit to a byte, without a branch or a
//! table.

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

    /// The id of the session in a slot with these random bits. For arrays that are kept elsewhere,
    /// such as on a device: what [`SessionArray`](super::SessionArray) knows is only what it
    /// created.
    pub fn new(slot: u32, random: u128) -> SessionId {
        SessionId {
            slot,
            secret: [(random >> 64) as u64, random as u64],
        }
    }

    /// An id of no session, which no array has: what tells visitors apart who have none.
    pub fn of_nobody(random: u128) -> SessionId {
        SessionId::new(u32::MAX, random)
    }

    /// Whether it is one of [`SessionId::of_nobody`].
    pub fn is_of_nobody(&self) -> bool {
        self.slot == u32::MAX
    }

    /// The slot.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The random bits. Whoever has them has the session: they belong in no log, and are compared
    /// with [`PartialEq`], which takes the same time wherever they differ.
    pub fn secret(&self) -> u128 {
        u128::from(self.secret[0]) << 64 | u128::from(self.secret[1])
    }

    /// Reads an id from a cookie's value. Only what [`to_text`](Self::to_text) writes is one:
    /// `None` for any other length, for capitals, and for anything around it.
    pub fn parse(text: &[u8]) -> Option<SessionId> {
        let text: &[u8; Self::TEXT_LEN] = text.try_into().ok()?;
        let mut words = [0; 5];
        let mut wrong = 0;
        for (word, &digits) in words.iter_mut().zip(text.as_chunks().0) {
            let text = u64::from_be_bytes(digits);
            // Letters, and only they among what is valid, have bit 6, and their low bits count from
            // 1.
            let letters = text >> 6 & EACH;
            let nibbles = (text & (EACH * 0xf)) + letters * 9;
            // What is valid is what would be written for the same value.
            wrong |= (nibbles & (EACH * 0xf0)) | (text ^ hex_digits(nibbles));
            *word = gather(nibbles);
        }
        let [slot, secret @ ..] = words.map(u64::from);
        (wrong == 0).then_some(SessionId {
            slot: slot as u32,
            secret: [secret[0] << 32 | secret[1], secret[2] << 32 | secret[3]],
        })
    }

    /// The id as it stands in a cookie.
    pub fn to_text(self) -> [u8; Self::TEXT_LEN] {
        let [high, low] = self.secret;
        let words = [high >> 32, high, low >> 32, low].map(|word| word as u32);
        let mut text = [0; Self::TEXT_LEN];
        let words = [self.slot].into_iter().chain(words);
        for (digits, word) in text.as_chunks_mut().0.iter_mut().zip(words) {
            *digits = hex_digits(scatter(word)).to_be_bytes();
        }
        text
    }
}

/// A one in each byte: times a byte, that byte in each.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The digit of each byte's value, 0 to 15.
#[inline]
fn hex_digits(nibbles: u64) -> u64 {
    let letters = (nibbles + EACH * 6) >> 4 & EACH;
    nibbles + EACH * u64::from(b'0') + letters * u64::from(b'a' - 10 - b'0')
}

/// From a half byte in each byte to the number that they spell.
#[inline]
fn gather(nibbles: u64) -> u32 {
    let bytes = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    let pairs = (bytes | bytes >> 8) & 0x0000_ffff_0000_ffff;
    (pairs | pairs >> 16) as u32
}

/// The inverse of [`gather`].
#[inline]
fn scatter(number: u32) -> u64 {
    let number = u64::from(number);
    let pairs = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
    (bytes | bytes << 4) & (EACH * 0xf)
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
