//! How the last request of a page failed, kept for who watches.

use rhythm_net::Time;
use std::sync::{Mutex, PoisonError};

/// Bytes of words that are kept.
const WORDS_MAX: usize = 300;

/// The last failure of a page, of which its worker also leaves a line in the log: at most one a
/// second of each kind. So its lock is taken that often, and by who reads it.
#[derive(Debug, Default)]
pub struct LastFailure(Mutex<Option<(Time, String)>>);

impl LastFailure {
    /// Keeps this one in place of the one before.
    pub(crate) fn set(&self, now: Time, mut words: String) {
        let ends = 0..=words.len().min(WORDS_MAX);
        let end = ends.rev().find(|end| words.is_char_boundary(*end));
        words.truncate(end.unwrap_or(0));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, words));
    }

    /// When it was, and in what words; none where there was none.
    pub(crate) fn get(&self) -> Option<(Time, String)> {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_between_characters() {
        let last = LastFailure::default();
        assert_eq!(last.get(), None);
        let now = Time::from_nanos(7);
        last.set(now, "short".to_owned());
        last.set(now, format!("a{}", "é".repeat(200)));
        let kept = format!("a{}", "é".repeat(149));
        assert_eq!(last.get(), Some((now, kept)));
    }
}
