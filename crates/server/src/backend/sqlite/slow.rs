//! Statements that take long: what they took the last time says what they take.

use super::query::Asked;
use std::hash::{DefaultHasher, Hash, Hasher};

/// So many are known; the one that was seen first is forgotten for another. Services have few.
const KNOWN_MAX: usize = 64;

/// Statements, whatever their arguments, that took long when they were carried out last.
#[derive(Debug, Default)]
pub(super) struct Slow {
    /// Their hashes: who is taken for another is done alone in vain, once.
    known: Vec<u64>,
}

impl Slow {
    /// Whether it took long the last time.
    pub(super) fn knows(&self, asked: &Asked<'_>) -> bool {
        !self.known.is_empty() && self.known.contains(&hash(asked))
    }

    /// It was carried out, or stopped.
    pub(super) fn note(&mut self, asked: &Asked<'_>, took_long: bool) {
        if self.knows(asked) == took_long {
            return;
        }
        let hash = hash(asked);
        if !took_long {
            return self.known.retain(|known| *known != hash);
        }
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(hash);
    }
}

fn hash(asked: &Asked<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    asked.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_is_known_until_it_does_not_and_no_more_than_so_many_are() {
        let mut slow = Slow::default();
        let texts: Vec<String> = (0..=KNOWN_MAX).map(|number| format!("{number}")).collect();
        let asked = |number: usize| Asked::Statement(&texts[number]);
        for number in 0..KNOWN_MAX {
            assert!(!slow.knows(&asked(number)));
            slow.note(&asked(number), true);
            slow.note(&asked(number), true);
        }
        assert!((0..KNOWN_MAX).all(|number| slow.knows(&asked(number))));
        slow.note(&asked(KNOWN_MAX), true);
        assert!(slow.knows(&asked(KNOWN_MAX)) && !slow.knows(&asked(0)));
        slow.note(&asked(KNOWN_MAX), false);
        assert!(!slow.knows(&asked(KNOWN_MAX)) && slow.knows(&asked(1)));
        assert_eq!(slow.known.len(), KNOWN_MAX - 1);
    }
}
