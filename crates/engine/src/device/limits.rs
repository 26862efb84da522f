//! Bounds that hold for every executor.

use crate::settings::Limits;

/// How much a lane may ask for before it is failed: what keeps one page from stopping a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Most bytes of a lane's run and of its body.
    pub body_bytes: usize,
    /// Most bytes of text a lane may make in one stage (concatenations, conversions, functions).
    /// Each text made is charged at its length, and so are the requests it asks.
    pub text_bytes: usize,
    /// Most turns of all loops of a lane in one stage, positions that a filter rejects included.
    pub turns: usize,
}

impl LaneLimits {
    /// What a service's settings say.
    pub fn of(limits: &Limits) -> LaneLimits {
        LaneLimits {
            body_bytes: limits.response_bytes_max as usize,
            text_bytes: limits.stage_text_bytes_max as usize,
            turns: limits.stage_turns_max as usize,
        }
    }
}

impl Default for LaneLimits {
    fn default() -> Self {
        LaneLimits::of(&Limits::default())
    }
}

/// Most rows of one answer of a backend; one with more is unreadable.
pub(crate) const ROWS_MAX: u32 = 4096;

/// Fragments of at most this many bytes are folded into the run: copying them costs less than a
/// segment.
pub const FOLD_BYTES_MAX: usize = 128;
