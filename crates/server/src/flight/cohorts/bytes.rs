//! The bounds of cohorts' memory.

use rhythm_engine::device::LaneLimits;

/// What a pipeline's cohorts may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CohortBytes {
    /// Most of a cohort's texts; likewise of its queries', of its answers but for one alone, and of
    /// what is kept of its requests.
    pub arena_max: usize,
    /// Of all these, what is always there for each context.
    pub first_part: usize,
    /// What all contexts may take beyond that together, but for the answers of one at a time.
    pub common_max: usize,
}

impl CohortBytes {
    /// The most of so many contexts, whose lanes have these limits.
    pub(crate) fn most(&self, contexts: usize, limits: LaneLimits) -> usize {
        // Beside runs lie segments: of short ones a quarter, of long ones a sixteenth.
        let (arena, body) = (self.arena_max, limits.body_bytes_max);
        let of_first = [arena, arena / 4, body, body / 16];
        of_first
            .into_iter()
            .chain([self.common_max, contexts.saturating_mul(self.first_part)])
            .fold(0, usize::saturating_add)
    }
}
