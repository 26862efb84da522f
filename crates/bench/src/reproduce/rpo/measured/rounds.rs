//! What was measured of the cases.

use super::controller::Did;
use super::plan::Case;
use super::watch::Seen;
use serde::Serialize;

/// All rounds of a case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    #[serde(flatten)]
    pub(super) case: Case,
    pub(super) slices: Vec<Slice>,
}

/// One round.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Slice {
    pub(super) pages: u64,
    pub(super) pages_per_s: f64,
    pub(super) mean_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) did: Option<Did>,
    pub(super) seen: Option<Seen>,
}
