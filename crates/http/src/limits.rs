//! The bounds of clients' connections and of their requests.

use rhythm_protocol::http::request::HeadLimits;
use std::num::NonZeroU32;
use std::time::Duration;

/// Limits of clients' connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// From a connection's opening, or a head's first byte, to the head's end.
    pub header_timeout: Duration,
    /// From a head's end to its body's end; of a body that is taken in pieces, beside the time its
    /// bytes take at `rate_min`.
    pub body_timeout: Duration,
    /// Between an answer and the next request.
    pub idle_timeout: Duration,
    /// A connection that waits for a request, or the rest of its head, may be closed after so long
    /// where others need its place.
    pub yield_after: Duration,
    /// For the client to take what is ready for it, beside the time its bytes take at `rate_min`.
    pub send_timeout: Duration,
    /// The slowest that a client may take an answer, or send content that is taken in pieces, over
    /// time: bytes a second, at least 1.
    pub rate_min: u64,
    /// Requests after which a connection is closed, if any.
    pub requests_max: Option<NonZeroU32>,
    /// Requests of one connection under way at a time; more are not read.
    pub pipelined_max: u32,
    /// Bytes of answers that one connection may have under way: that the client has not taken, or
    /// that are expected of requests that were taken. With more no request is taken, and the
    /// [`Host`] of an answer in pieces pauses. One answer may always go on, however long.
    ///
    /// [`Host`]: crate::Host
    pub unsent_max: usize,
    /// Bytes that all connections of a thread may hold together (`held.rs`).
    pub held_max: usize,
}

/// Bytes of answers that a connection may have under way, where nothing else is said.
pub const UNSENT_MAX: usize = 64 * 1024;

/// Bytes that the connections of a thread may hold, where nothing else is said.
pub const HELD_MAX: usize = 64 << 20;

/// The slowest that a client may take or send bytes, where nothing else is said.
pub const RATE_MIN: u64 = 16 * 1024;

/// For how long a client of a server beside the public one is left its place at least.
const YIELD_AFTER: Duration = Duration::from_millis(50);

impl ClientLimits {
    /// Limits of a server beside the one for the public: everything within this time, and any
    /// number of requests.
    pub fn within(timeout: Duration) -> ClientLimits {
        ClientLimits {
            header_timeout: timeout,
            body_timeout: timeout,
            idle_timeout: timeout,
            yield_after: YIELD_AFTER,
            send_timeout: timeout,
            rate_min: RATE_MIN,
            requests_max: None,
            pipelined_max: 64,
            unsent_max: UNSENT_MAX,
            held_max: HELD_MAX,
        }
    }
}

/// Limits of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestLimits {
    /// Of their heads.
    pub head: HeadLimits,
    /// Most bytes of content that is collected; beyond is 413.
    pub body_max: usize,
}
