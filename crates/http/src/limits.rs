//! The bounds of clients' connections and of their requests.

use rhythm_protocol::http::request::HeadLimits;
use std::time::Duration;

/// Limits of clients' connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ClientLimits {
    /// From a connection's opening, or a head's first byte, to the head's end.
    pub header_timeout: Duration,
    /// From a head's end to its body's end; of a body that is taken in pieces, beside the time its
    /// bytes take at [`SEND_RATE_MIN`].
    pub body_timeout: Duration,
    /// Between an answer and the next request.
    pub idle_timeout: Duration,
    /// For the client to take what is ready for it, beside the time its bytes take at
    /// [`SEND_RATE_MIN`].
    pub send_timeout: Duration,
    /// Requests after which a connection is closed; 0: any number.
    pub requests_max: u32,
    /// Requests of one connection under way at a time; more are not read.
    pub pipelined_max: u32,
    /// Bytes of an answer in pieces that wait for the client; with more, its [`Host`] pauses.
    ///
    /// [`Host`]: crate::Host
    pub unsent_max: usize,
}

/// The slowest that a client may read or send over time, bytes a second.
pub const SEND_RATE_MIN: u64 = 4096;

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            send_timeout: Duration::from_secs(30),
            requests_max: 0,
            pipelined_max: 64,
            unsent_max: 64 * 1024,
        }
    }
}

/// Limits of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestLimits {
    /// Of their heads.
    pub head: HeadLimits,
    /// Most bytes of content that is collected; beyond is 413.
    pub body_max: usize,
}
