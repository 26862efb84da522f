//! Values too long for segments have memory of their own, which counts as the segments' does. It is
//! shared: a connection that sends one slowly keeps it, and its count, beyond its guard.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of a long value.
#[derive(Debug)]
pub struct Large {
    bytes: Vec<u8>,
    counted: usize,
    held: Arc<AtomicUsize>,
}

impl Large {
    /// Memory for so many bytes, counted in `held` as long as it lives. None where the system has
    /// none.
    pub(super) fn new(length: usize, held: &Arc<AtomicUsize>) -> Option<Large> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        held.fetch_add(length, Ordering::Relaxed);
        Some(Large {
            bytes,
            counted: length,
            held: Arc::clone(held),
        })
    }

    /// With so many bytes of zeros.
    pub(super) fn zeroed(mut self) -> Large {
        self.bytes.resize(self.counted, 0);
        self
    }

    /// Its bytes, to be changed before it is shared.
    pub(in crate::store) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// With these parts as its bytes, and blanks behind them. None where they are longer than it
    /// was made for.
    pub(super) fn fill(mut self, parts: [&[u8]; 2], blanks: usize) -> Option<Large> {
        let length = parts[0].len() + parts[1].len() + blanks;
        let fits = parts.iter().all(|part| self.push(part)) && length <= self.counted;
        fits.then(|| {
            self.bytes.resize(length, b' ');
            self
        })
    }

    /// With more bytes behind those it has. False: they are more than it was made for.
    pub(in crate::store) fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = self.bytes.len() + bytes.len() <= self.counted;
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }
}

impl Deref for Large {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        self.held.fetch_sub(self.counted, Ordering::Relaxed);
    }
}
