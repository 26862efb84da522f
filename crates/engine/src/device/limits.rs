//! Bounds that hold for every executor.

use crate::settings::{Limits, SettingKind};

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

    /// Whether a service's settings could say so: of others, executors may take any memory or time.
    pub fn can_be_set(&self) -> bool {
        let may_be = |key: &str, number: usize| {
            let mut all = Limits::DEFINITIONS.iter();
            let definition = all.find(|definition| definition.key == key);
            match definition.map(|definition| definition.rule.kind) {
                Some(SettingKind::Count(least, most) | SettingKind::Bytes(least, most)) => {
                    (least as usize..=most as usize).contains(&number)
                }
                _ => false,
            }
        };
        may_be("response_bytes_max", self.body_bytes_max)
            && may_be("stage_text_bytes_max", self.text_bytes_max)
            && may_be("stage_turns_max", self.turns_max)
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
