//! What a node's answers of a page may have: what comes is held against it.

use rhythm_engine::device::{FOLD_BYTES_MAX, LaneLimits};
use rhythm_engine::program::{FragmentId, Op, Service};

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MaySay {
    /// The page's own that stand beside runs, in rising order. Whoever compresses its answers has
    /// prepared these, and no others of the service.
    fragments: Vec<FragmentId>,
    pub(super) begins_session: bool,
    pub(super) ends_session: bool,
    /// Most bytes of a body.
    pub(super) body_bytes_max: usize,
}

impl MaySay {
    /// Of a page, whose lanes may ask for so much.
    pub(crate) fn of(service: &Service, page: usize, limits: LaneLimits) -> MaySay {
        let program = &service.pages[page];
        let mut fragments = program.fragments();
        // Executors put short ones into runs.
        fragments.retain(|id| service.fragments[*id as usize].len() > FOLD_BYTES_MAX);
        fragments.sort_unstable();
        fragments.dedup();
        MaySay {
            fragments,
            begins_session: program.begins_session(),
            ends_session: program.any_op(|op| matches!(op, Op::SessionDestroy)),
            body_bytes_max: limits.body_bytes_max,
        }
    }

    pub(super) fn has_fragment(&self, fragment: FragmentId) -> bool {
        self.fragments.binary_search(&fragment).is_ok()
    }
}
