//! What a program has an accelerator do.

use super::request::{Failure, NONCE_BYTES, Operation, Request, TAG_BYTES};
use std::fmt;

/// What an accelerator is to do.
#[derive(Clone, Copy)]
pub enum Job<'a> {
    /// A Fourier transform of complex numbers, as [`fft::to_bytes`](super::fft::to_bytes) has them.
    /// Forward and then inverse gives the numbers times their count.
    Transform {
        /// By positive powers of e, instead of negative ones.
        inverse: bool,
        /// The numbers.
        points: &'a [u8],
    },
    /// Encrypts, and appends a tag.
    Seal(Cipher<'a>),
    /// Decrypts a text with its tag.
    Open(Cipher<'a>),
}

/// What AES-GCM needs. The key goes to the donor.
#[derive(Clone, Copy)]
pub struct Cipher<'a> {
    /// 16 or 32 bytes.
    pub key: &'a [u8],
    /// No two texts that are sealed with one key may have the same.
    pub nonce: &'a [u8; NONCE_BYTES],
    /// What is authenticated, and not encrypted.
    pub associated: &'a [u8],
    /// What is encrypted or decrypted.
    pub text: &'a [u8],
}

impl Job<'_> {
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Transform { inverse: false, .. } => Operation::Forward,
            Self::Transform { inverse: true, .. } => Operation::Inverse,
            Self::Seal(_) => Operation::Seal,
            Self::Open(_) => Operation::Open,
        }
    }

    /// The input, in two parts.
    pub(super) fn input(&self) -> [&[u8]; 2] {
        match self {
            Self::Transform { points, .. } => [&[], points],
            Self::Seal(cipher) | Self::Open(cipher) => [cipher.associated, cipher.text],
        }
    }

    pub(super) fn input_bytes(&self) -> usize {
        self.input().iter().map(|part| part.len()).sum()
    }

    /// Bytes of its output, where it is done.
    pub(super) fn output_bytes(&self) -> usize {
        match self {
            Self::Transform { points, .. } => points.len(),
            Self::Seal(cipher) => cipher.text.len() + TAG_BYTES,
            Self::Open(cipher) => cipher.text.len().saturating_sub(TAG_BYTES),
        }
    }

    pub(super) fn request(&self) -> Result<Request, Failure> {
        let bytes = self.input_bytes() as u64;
        match self {
            Self::Transform { .. } => Ok(Request::of_transform(self.operation(), bytes)),
            Self::Seal(cipher) | Self::Open(cipher) => {
                let secret = (cipher.key, cipher.nonce);
                let associated = cipher.associated.len() as u64;
                Request::of_cipher(self.operation(), secret, associated, bytes)
            }
        }
    }
}

impl fmt::Debug for Job<'_> {
    /// Without what is in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, bytes) = (self.operation(), self.input_bytes());
        write!(f, "Job({operation:?} of {bytes} bytes)")
    }
}
