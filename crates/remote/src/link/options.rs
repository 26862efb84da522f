//! How nodes are used.

use rhythm_venice::secret::Secret;
use std::time::Duration;

/// How nodes are used.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// What both ends have in common, if the nodes have a key.
    pub key: Option<Secret>,
    /// How long a node may take for anything: greeting, or a stage.
    pub timeout: Duration,
    /// Works under way at a node at most, whatever it takes.
    pub in_flight_max: usize,
}
