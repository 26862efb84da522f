//! What is asked of an accelerator, as it lies in a mailbox's request buffer, and why it was not
//! done. All numbers are little-endian:
//!
//! | at | bytes | |
//! |---:|---:|---|
//! | 0 | 4 | operation |
//! | 4 | 4 | bytes of the key: 16 or 32, or 0 for a transform |
//! | 8 | 8 | bytes of the input |
//! | 16 | 8 | bytes of it, from its beginning on, that are authenticated only |
//! | 24 | 32 | key |
//! | 56 | 12 | nonce |
//!
//! The paper's request buffer has programs for an accelerator; ours has the name of one that the
//! donor has, so nobody runs a stranger's code.

use crate::resource;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Bytes of a request buffer.
pub const REQUEST_BYTES: usize = 128;
/// Bytes of an AES-GCM tag, by which what is sealed is longer than its text.
pub(crate) const TAG_BYTES: usize = 16;
/// Bytes of a nonce.
pub(crate) const NONCE_BYTES: usize = 12;

/// What an accelerator is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Discrete Fourier transforms of complex numbers in single precision, of any length.
    Fft,
    /// AES-GCM (NIST SP 800-38D) with keys of 128 or 256 bits.
    Aes,
}

impl Kind {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Fft, Self::Aes];

    /// As it goes over connections.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Fft => 1,
            Self::Aes => 2,
        }
    }

    /// What the monitor calls it.
    pub fn resource(self) -> resource::Kind {
        match self {
            Self::Fft => resource::Kind::Fft,
            Self::Aes => resource::Kind::Aes,
        }
    }

    /// The one of a number.
    pub(crate) fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fft => "fft",
            Self::Aes => "aes",
        })
    }
}

/// A name that no accelerator has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no accelerator \"{0}\": there are fft and aes")]
pub struct NoKind(String);

impl FromStr for Kind {
    type Err = NoKind;

    fn from_str(name: &str) -> Result<Self, NoKind> {
        let kind = Self::ALL.into_iter().find(|kind| kind.to_string() == name);
        kind.ok_or_else(|| NoKind(name.to_owned()))
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A transform, by e^(-2 pi i jk/n), of complex numbers of two `f32`.
    Forward,
    /// By e^(2 pi i jk/n), without dividing by n.
    Inverse,
    /// Encrypts what follows the authenticated bytes; a tag is appended.
    Seal,
    /// Decrypts, if the tag at the end is right.
    Open,
}

impl Operation {
    const ALL: [Self; 4] = [Self::Forward, Self::Inverse, Self::Seal, Self::Open];

    /// The accelerator that does it.
    pub fn kind(self) -> Kind {
        match self {
            Self::Forward | Self::Inverse => Kind::Fft,
            Self::Seal | Self::Open => Kind::Aes,
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Forward => 1,
            Self::Inverse => 2,
            Self::Seal => 3,
            Self::Open => 4,
        }
    }
}

/// Why a job was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The request names no operation of this accelerator.
    #[error("this accelerator has no such operation")]
    Operation,
    /// It says more bytes than there can be, or a transform of parts of numbers, or of none.
    #[error("its input cannot have that many bytes")]
    Length,
    /// A key of another length.
    #[error("AES-GCM keys have 16 or 32 bytes")]
    Key,
    /// The tag does not belong to these bytes with this key and nonce.
    #[error("it is not authentic: key, nonce, text or tag are others than it was sealed with")]
    NotAuthentic,
    /// The accelerator itself failed: what it is asked for is in order.
    #[error("the accelerator failed")]
    Broken,
}

impl Failure {
    const ALL: [Self; 5] = [
        Self::Operation,
        Self::Length,
        Self::Key,
        Self::NotAuthentic,
        Self::Broken,
    ];

    /// As it lies in a mailbox, where 0 is no failure.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Operation => 1,
            Self::Length => 2,
            Self::Key => 3,
            Self::NotAuthentic => 4,
            Self::Broken => 5,
        }
    }

    /// The one of a number.
    pub(crate) fn of(number: u32) -> Option<Self> {
        let found = |failure: &Self| failure.number() == number;
        Self::ALL.into_iter().find(found)
    }
}

/// What a request buffer has.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub operation: Operation,
    /// Bytes of the input.
    pub input_bytes: u64,
    /// Bytes of it that are authenticated only; no more than there are.
    pub associated_bytes: u64,
    key_bytes: u32,
    key: [u8; 32],
    nonce: [u8; NONCE_BYTES],
}

impl fmt::Debug for Request {
    /// Without its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, bytes) = (self.operation, self.input_bytes);
        write!(f, "Request({operation:?} of {bytes} bytes)")
    }
}

impl Request {
    /// A transform.
    pub(crate) fn of_transform(operation: Operation, input_bytes: u64) -> Self {
        Self {
            operation,
            input_bytes,
            associated_bytes: 0,
            key_bytes: 0,
            key: [0; 32],
            nonce: [0; NONCE_BYTES],
        }
    }

    /// One of AES-GCM's.
    ///
    /// # Errors
    /// [`Failure::Key`].
    pub(crate) fn of_cipher(
        operation: Operation,
        (key, nonce): (&[u8], &[u8; NONCE_BYTES]),
        associated_bytes: u64,
        input_bytes: u64,
    ) -> Result<Self, Failure> {
        if !matches!(key.len(), 16 | 32) {
            return Err(Failure::Key);
        }
        let mut request = Self::of_transform(operation, input_bytes);
        request.associated_bytes = associated_bytes;
        request.key[..key.len()].copy_from_slice(key);
        request.key_bytes = key.len() as u32;
        request.nonce = *nonce;
        Ok(request)
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key[..self.key_bytes as usize]
    }

    /// The nonce.
    pub(crate) fn nonce(&self) -> [u8; NONCE_BYTES] {
        self.nonce
    }

    /// As a request buffer.
    pub fn bytes(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&self.operation.number().to_le_bytes());
        bytes[4..8].copy_from_slice(&self.key_bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.input_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.associated_bytes.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.key);
        bytes[56..56 + NONCE_BYTES].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads a request buffer, of which nothing is believed.
    ///
    /// # Errors
    /// [`Failure`]: it asks for nothing that can be done.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, Failure> {
        let number = part(bytes, 0);
        let operation = Operation::ALL.into_iter().find(|o| o.number() == number);
        let operation = operation.ok_or(Failure::Operation)?;
        let key_bytes = part(bytes, 4);
        let mut request = Self::of_transform(operation, long(bytes, 8));
        match operation.kind() {
            Kind::Fft => return Ok(request),
            Kind::Aes if !matches!(key_bytes, 16 | 32) => return Err(Failure::Key),
            Kind::Aes => {}
        }
        request.associated_bytes = long(bytes, 16);
        if request.associated_bytes > request.input_bytes {
            return Err(Failure::Length);
        }
        request.key_bytes = key_bytes;
        let length = key_bytes as usize;
        request.key[..length].copy_from_slice(&bytes[24..24 + length]);
        request.nonce.copy_from_slice(&bytes[56..56 + NONCE_BYTES]);
        Ok(request)
    }
}

/// The number of four bytes there.
fn part(bytes: &[u8; REQUEST_BYTES], at: usize) -> u32 {
    long(bytes, at) as u32
}

fn long(bytes: &[u8; REQUEST_BYTES], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_read_is_what_is_written(
            operation in prop::sample::select(Operation::ALL.to_vec()),
            key in prop::collection::vec(any::<u8>(), 0..40),
            nonce: [u8; NONCE_BYTES],
            input: u32,
            associated: u32,
        ) {
            let (least, most) = (input.min(associated).into(), input.max(associated).into());
            let request = match operation.kind() {
                Kind::Fft => Ok(Request::of_transform(operation, most)),
                Kind::Aes => Request::of_cipher(operation, (&key, &nonce), least, most),
            };
            let fits = operation.kind() == Kind::Fft || matches!(key.len(), 16 | 32);
            prop_assert_eq!(request.is_ok(), fits);
            if let Ok(request) = request {
                prop_assert_eq!(Request::parse(&request.bytes()), Ok(request));
            }
        }
    }

    #[test]
    fn what_cannot_be_is_no_request_and_no_key_is_told() {
        let good = Request::of_cipher(Operation::Seal, (&[7; 32], &[8; 12]), 3, 5).unwrap();
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.bytes();
            bytes[at] = byte;
            Request::parse(&bytes)
        };
        assert_eq!(changed(0, 9), Err(Failure::Operation));
        assert_eq!(changed(4, 24), Err(Failure::Key));
        assert_eq!(changed(16, 6), Err(Failure::Length));
        assert_eq!(changed(23, 255), Err(Failure::Length));
        assert_eq!(format!("{good:?}"), "Request(Seal of 5 bytes)");
        assert_eq!("aes".parse(), Ok(Kind::Aes));
        assert!(
            "gpu"
                .parse::<Kind>()
                .unwrap_err()
                .to_string()
                .contains("fft and aes")
        );
        for failure in Failure::ALL {
            assert_eq!(Failure::of(failure.number()), Some(failure));
        }
        assert_eq!(Failure::of(0), None);
    }
}
