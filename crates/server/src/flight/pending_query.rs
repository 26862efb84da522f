//! A query under way: what the key that its answer is told by stands for.

use rhythm_cohort::ContextId;
use rhythm_net::{Key, Time};

/// A query that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingQuery {
    /// The context whose cohort waits for it.
    pub(crate) context: ContextId,
    /// Index into the cohort's queries.
    pub(crate) query: u32,
    /// The backend, among the pipeline's.
    pub(crate) backend: Key,
    /// When it was handed over.
    pub(crate) asked: Time,
    /// When it is given up.
    pub(crate) deadline: Time,
}
