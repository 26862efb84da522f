//! What is counted of HTTP/2.

use rhythm_observe::Count;

/// A handler's figures, which its thread writes and others read.
#[derive(Debug, Default)]
pub struct Figures {
    /// Connections that speak HTTP/2 now.
    pub connections: Count,
    /// Streams under way now.
    pub streams: Count,
    /// Requests that came over streams.
    pub requests: Count,
    /// Requests refused because too many streams were under way.
    pub refused: Count,
    /// Requests that their clients took back, or left.
    pub resets: Count,
}
