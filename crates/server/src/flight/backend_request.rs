//! A backend request under way: what the key that its answer is told by stands for.

use rhythm_cohort::ContextId;
use rhythm_net::{Key, Time};

/// A backend request that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackendRequest {
    /// The context whose cohort waits for it.
    pub(crate) context: ContextId,
    /// Index into the cohort's requests.
    pub(crate) request: u32,
    /// The backend, among the pipeline's.
    pub(crate) backend: Key,
    /// When it was handed over.
    pub(crate) asked: Time,
    /// When it is given up.
    pub(crate) deadline: Time,
}
