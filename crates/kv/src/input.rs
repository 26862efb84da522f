//! What came from a connection and is not dealt with yet.
//!
//! What is dealt with at its front is left where it lies until that is half of it, so that commands
//! taken from long input piece by piece do not have the rest moved each time.

/// Bytes in their order.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// So many at the front are dealt with.
    taken: usize,
}

impl Input {
    /// What is not dealt with.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// How long that is, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Adds bytes, where there is memory for them; `false` if there is none. Memory grows with what
    /// comes, to twice as much at a time, but not beyond the `wanted` bytes that are waited for.
    #[must_use]
    pub(crate) fn append(&mut self, bytes: &[u8], wanted: usize) -> bool {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        let len = self.bytes.len() + bytes.len();
        if len > self.bytes.capacity() {
            let room = (2 * self.bytes.capacity()).min(wanted).max(len);
            let more = room - self.bytes.len();
            if self.bytes.try_reserve_exact(more).is_err() {
                return false;
            }
        }
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// So many more bytes at the front are dealt with.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken += count;
        debug_assert!(self.taken <= self.bytes.len());
        if self.is_empty() {
            *self = Input::default();
        } else if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.bytes.shrink_to_fit();
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_order_and_memory_follows_them() {
        let all: Vec<u8> = (0..100_000).map(|number| (number % 251) as u8).collect();
        let mut input = Input::default();
        let (mut came, mut gone) = (0, 0);
        while gone < all.len() {
            let until = all.len().min(came + 7_000);
            assert!(input.append(&all[came..until], 0));
            came = until;
            for _ in 0..3 {
                let some = input.len().min(1_999);
                input.take(some);
                gone += some;
                assert_eq!(input.rest(), &all[gone..came]);
                assert!(input.capacity() <= 2 * (input.len() + 1_999) + 7_000);
            }
        }
        assert_eq!(input.capacity(), 0, "nothing is held for nothing");
    }

    #[test]
    fn memory_is_not_taken_for_what_may_never_come() {
        let mut input = Input::default();
        assert!(input.append(&[1; 1_000], 1 << 30));
        assert_eq!(input.capacity(), 1_000);
        assert!(input.append(&[2; 1], 1 << 30));
        assert_eq!(input.capacity(), 2_000);
        assert!(input.append(&[3; 1_000], 2_100));
        assert_eq!(input.capacity(), 2_100, "nor beyond what is waited for");
    }
}
