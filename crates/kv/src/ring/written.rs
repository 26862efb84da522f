//! What was written in a turn: keys, one behind the other, and whether all items were flushed; and
//! what was shown that may not be confirmed.

/// The writes of one turn of a worker, or of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Each key, behind its length.
    keys: Vec<u8>,
    /// All items went, or go in this second of the store's clock.
    flushed: bool,
    flushes_at: Option<u32>,
    count: u64,
    /// Of these ranges, a bit each, something was shown that is to be confirmed.
    shown: u64,
    /// Its answer waits for no copies.
    answers_at_once: bool,
}

impl Written {
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.flushed && self.flushes_at.is_none()
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

    /// Its answer waits for no copies, whatever others wait for.
    pub(crate) fn answer_at_once(&mut self) {
        self.answers_at_once = true;
    }

    /// Whether that is so.
    pub(crate) fn answers_at_once(&self) -> bool {
        self.answers_at_once
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

    /// All items went, and none are to go later any more.
    pub fn flush(&mut self) {
        self.count += 1;
        (self.flushed, self.flushes_at) = (true, None);
    }

    /// All items are to go in this second of the store's clock; of several, the last counts.
    pub fn flush_at(&mut self, second: u32) {
        self.count += 1;
        self.flushes_at = Some(second);
    }

    /// Whether all items went.
    pub fn flushed(&self) -> bool {
        self.flushed
    }

    /// When all items are to go, behind all else.
    pub(crate) fn flushes_at(&self) -> Option<u32> {
        self.flushes_at
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_flushes_to_come_the_last_counts_and_one_that_came_takes_none_with_it_that_follows() {
        let mut written = Written::default();
        assert!(written.is_empty());
        written.flush_at(10);
        written.flush_at(20);
        assert_eq!((written.flushed(), written.flushes_at()), (false, Some(20)));
        assert!(!written.is_empty());
        written.flush();
        assert_eq!((written.flushed(), written.flushes_at()), (true, None));
        written.flush_at(30);
        assert_eq!((written.flushed(), written.flushes_at()), (true, Some(30)));
    }
}
