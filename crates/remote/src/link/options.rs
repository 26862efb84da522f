//! How nodes are used.

use std::time::Duration;

/// How nodes are used.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// How long a node may take for anything: greeting, or a stage.
    pub timeout: Duration,
    /// Works under way at a node at most, whatever it takes.
    pub in_flight_max: usize,
}
