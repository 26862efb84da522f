//! How a connection to a donor of accelerators begins, without I/O.
//!
//! First come 8 bytes, `RVA2` and which way to a mailbox this is. The way by windows goes on with
//! the channels' own frames, of which the first asks for a window: on the loan that has the number
//! of the accelerator's kind, as large as the input's capacity. The way by messages goes on with a
//! QPair: its first message is a [`Hello`], and each further one is 8 bytes that say where in the
//! mailbox what follows belongs. What the donor says begins with a byte: [`HAS`], or [`REFUSES`]
//! and a reason, or, now and then while a job is not begun, [`WAITS`] alone. Of an output each
//! message has as much as fits.

use super::mailbox::COMPLETION_BYTES;
use super::request::Kind;
use super::units::Sharing;
use crate::channel::frame::{PAYLOAD_BYTES_MAX, u64_at};
use crate::channel::messages::{Credits, QueueSettings};
use crate::loan::LoanKey;

/// Bytes that a connection begins with.
pub(super) const PREFACE_BYTES: usize = 8;
const MAGIC: [u8; 4] = *b"RVA2";
/// Bytes of a [`Hello`].
pub(super) const HELLO_BYTES: usize = 48;
/// Bytes of a mailbox that one message carries at most.
pub(super) const PART_BYTES: usize = PAYLOAD_BYTES_MAX - 8;
/// What the donor has follows.
pub(super) const HAS: u8 = 1;
/// Why it refuses follows.
pub(super) const REFUSES: u8 = 2;
/// The job is in the line.
pub(super) const WAITS: u8 = 3;
/// Bytes of an output that go with its completion at most.
pub(super) const FIRST_PART_BYTES: usize = PART_BYTES - 1 - COMPLETION_BYTES;

/// Messages each way.
pub(super) const SETTINGS: QueueSettings = QueueSettings {
    messages: 4,
    message_bytes: PAYLOAD_BYTES_MAX as u32,
    credits: Credits::Crma,
    credit_every: 2,
};

/// What a connection begins with. Who shares talks by messages, who does not by windows.
pub(super) fn preface(sharing: Sharing) -> [u8; PREFACE_BYTES] {
    let mut bytes = [0; PREFACE_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = match sharing {
        Sharing::Shared => 1,
        Sharing::Exclusive => 2,
    };
    bytes
}

/// None where it is no preface.
pub(super) fn parse_preface(bytes: [u8; PREFACE_BYTES]) -> Option<Sharing> {
    let all = [Sharing::Shared, Sharing::Exclusive];
    all.into_iter().find(|sharing| preface(*sharing) == bytes)
}

/// The first message of a borrower.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The number of a [`Kind`].
    pub(super) kind: u64,
    /// Bytes of its longest input.
    pub(super) capacity: u64,
    /// What it has from the donor's owner.
    pub(super) key: LoanKey,
}

impl Hello {
    pub(super) fn new(kind: Kind, capacity: u64, key: &LoanKey) -> Self {
        Self {
            kind: kind.number(),
            capacity,
            key: key.clone(),
        }
    }

    pub(super) fn bytes(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&self.kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[16..].copy_from_slice(&self.key.0);
        bytes
    }

    /// None where it is none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HELLO_BYTES] = bytes.try_into().ok()?;
        let mut key = [0; 32];
        key.copy_from_slice(&bytes[16..]);
        Some(Self {
            kind: u64_at(bytes, 0),
            capacity: u64_at(bytes, 8),
            key: LoanKey(key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_written() {
        for sharing in [Sharing::Shared, Sharing::Exclusive] {
            assert_eq!(parse_preface(preface(sharing)), Some(sharing));
        }
        assert_eq!(parse_preface(*b"RVA2\0\0\0\0"), None);
        assert_eq!(parse_preface(*b"GET / HT"), None);
        let hello = Hello::new(Kind::Aes, 1 << 40, &LoanKey([3; 32]));
        let bytes = hello.bytes();
        assert_eq!(Hello::parse(&bytes), Some(hello));
        assert_eq!(Hello::parse(&bytes[1..]), None);
        assert_eq!(Hello::parse(&[&bytes[..], &[0]].concat()), None);
    }
}
