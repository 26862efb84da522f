//! What was written in a turn: keys, one behind the other, and whether all items were flushed; and
//! what was shown that may not be confirmed.

/// The writes of one turn of a worker, or of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Each key, behind its length.
    keys: Vec<u8>,
    /// All items go in so many seconds, counted from the write.
    flush: Option<u32>,
    count: u64,
    /// Of these ranges, a bit each, something was shown that is to be confirmed.
    shown: u64,
}

impl Written {
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.flush.is_none()
    }

    /// Bytes of the keys.
    pub fn bytes(&self) -> usize {
        self.keys.len()
    }

    /// Writes so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Something of these ranges, a bit each, was shown that may not be confirmed yet.
    pub fn shows(&mut self, ranges: u64) {
        self.shown |= ranges;
    }

    /// The ranges of which that is so, a bit each.
    pub fn shown(&self) -> u64 {
        self.shown
    }

    /// A key was written.
    #[inline]
    pub fn key(&mut self, key: &[u8]) {
        debug_assert!(
            key.len() <= usize::from(u8::MAX),
            "keys have 250 bytes at most"
        );
        self.count += 1;
        self.keys.push(key.len() as u8);
        self.keys.extend_from_slice(key);
    }

    /// All items go in so many seconds; of several, the last counts.
    pub fn flush(&mut self, seconds: u32) {
        self.count += 1;
        self.flush = Some(seconds);
    }

    /// Whether, and when, all items go.
    pub fn flushed(&self) -> Option<u32> {
        self.flush
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.keys[..];
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first()?;
            let (key, behind) = behind.split_at(usize::from(*length));
            rest = behind;
            Some(key)
        })
    }
}
