//! What clients that speak HTTP/2 may do.

use rhythm_net::{Client, ConnectionId, Role};
use std::time::Duration;

/// What connections of HTTP/2 may do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether there are any; if not, all connections go through as they are.
    pub is_on: bool,
    /// The bits that the role of a stream has beside those of its connection's.
    pub role: Role,
    /// Most bytes of a request's header fields, as HTTP/2 counts them (RFC 9113, section 6.5.2).
    pub head_bytes_max: u32,
    /// Streams of one connection at one time; more are refused, and come again.
    pub streams_max: u32,
    /// Streams of all connections of a handler at one time, likewise. One client has half of them
    /// at most, and others find the rest.
    pub all_streams_max: usize,
    /// The number of the client that a connection is of.
    pub client: fn(Client, ConnectionId) -> u64,
    /// For how long a connection may be without a stream.
    pub idle: Duration,
    /// For how long a peer that was told to begin nothing more may be silent.
    pub farewell: Duration,
    /// For how long a connection without a stream has its place at least, where others wait for
    /// one.
    pub yield_after: Duration,
    /// For how long a peer may take nothing of what it is sent.
    pub stall: Duration,
}
