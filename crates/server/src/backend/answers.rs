//! What a backend has to tell until it is asked, without an allocation an answer.

use super::Tell;
use rhythm_engine::cohort::LaneError;
use std::ops::Range;

/// Answers by key, in the order they came; their bodies lie one after the other.
#[derive(Debug, Default)]
pub(super) struct Answers {
    bodies: Vec<u8>,
    told: Vec<(u64, Result<Range<usize>, LaneError>)>,
}

impl Answers {
    /// Memory kept between polls, in bytes, for bodies. What a burst needed beyond it is given
    /// back.
    const BODIES_KEPT: usize = 4 << 20;

    /// Keeps an answer for the next poll.
    pub(super) fn push(&mut self, key: u64, answer: Result<&[u8], LaneError>) {
        let start = self.bodies.len();
        let answer = answer.map(|body| {
            self.bodies.extend_from_slice(body);
            start..self.bodies.len()
        });
        self.told.push((key, answer));
    }

    /// Tells all and forgets them.
    pub(super) fn tell(&mut self, tell: &mut Tell<'_>) {
        for (key, answer) in self.told.drain(..) {
            tell(key, answer.map(|range| &self.bodies[range]));
        }
        self.bodies.clear();
        self.bodies.shrink_to(Self::BODIES_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_in_order() {
        let mut answers = Answers::default();
        answers.push(7, Ok(b"seven"));
        answers.push(3, Err(LaneError::BackendTimeout));
        answers.push(9, Ok(b""));
        answers.push(1, Ok(b"one"));
        let mut told = Vec::new();
        answers.tell(&mut |key, answer| told.push((key, answer.map(<[u8]>::to_vec))));
        assert_eq!(
            told,
            [
                (7, Ok(b"seven".to_vec())),
                (3, Err(LaneError::BackendTimeout)),
                (9, Ok(Vec::new())),
                (1, Ok(b"one".to_vec())),
            ]
        );
        answers.tell(&mut |key, _| panic!("{key} told twice"));
    }
}
