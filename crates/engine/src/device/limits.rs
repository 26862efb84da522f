//! Bounds that hold for every executor.

use crate::settings::Limits;

/// How much a lane may ask for before it is failed: what keeps one page from stopping a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Most bytes of a lane's run and of its body.
    pub body_bytes_max: usize,
    /// Most bytes of text a lane may make in one stage (concatenations, conversions, functions).
    /// Each text made is charged at its length, and so are the queries it asks.
    pub text_bytes_max: usize,
    /// Most turns of all loops of a lane in one stage, positions that a filter rejects included.
    pub turns_max: usize,
}

impl LaneLimits {
    /// What a service's settings say.
    pub fn of(limits: &Limits) -> LaneLimits {
        LaneLimits {
            body_bytes_max: limits.response_bytes_max as usize,
            text_bytes_max: limits.stage_text_bytes_max as usize,
            turns_max: limits.stage_turns_max as usize,
        }
    }
}

impl Default for LaneLimits {
    fn default() -> Self {
        LaneLimits::of(&Limits::default())
    }
}

/// Fragments of at most this many bytes are folded into the run: copying them costs less than a
/// segment.
pub const FOLD_BYTES_MAX: usize = 128;
