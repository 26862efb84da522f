//! What is told of single requests: what a server's owner decides.

use rhythm_engine::settings::Trusted;
use std::time::Duration;

/// What is told of single requests, beside the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// The log tells of requests that take so long, if of any.
    pub slow_request: Option<Duration>,
    /// Requests have ids.
    pub ids: bool,
    /// Clients are told of them.
    pub answers_ids: bool,
    /// Requests have places in traces.
    pub traces: bool,
    /// How many of 2^32 are recorded where nobody who is trusted has chosen.
    pub share: u64,
    /// Whose ids are taken over, and whose choice of what is traced.
    pub trusted: Trusted,
}
