//! HTTP/2 (RFC 9113) in front of a handler that knows HTTP/1.1 alone: each stream is a connection
//! of its own to it, which brings one request and is closed with the answer.
//!
//! ```text
//!   driver           Multiplexed                                           handler
//!   ------           -----------                                           -------
//!   connection 7 --> begins with the preface? -- no --------------------> connection 3
//!                      | yes: it is a Carrier from now on
//!                      v
//!                    h2: frames, HPACK, windows --> stream 1 (Stream) ---> connection 4
//!                    (carrier.rs, over pipe.rs)     stream 3 ------------> connection 5
//!                                                   stream 5 ------------> connection 6
//!                         heads become lines, and back: request.rs, answer.rs
//! ```
//!
//! So cohorts form of the requests of all streams as they do of those of all connections, and all
//! that bounds a connection (its time-outs, what it holds, its progress) bounds a stream. Who
//! speaks HTTP/2 is known by the first bytes (RFC 9113, section 3.4), with TLS below or without
//! ("prior knowledge"), so nothing here knows of TLS.
//!
//! The protocol itself is h2's, which hyper stands on. It is written for tasks of an asynchronous
//! runtime; here it is polled by hand when bytes came, when bytes were given to a stream, and when
//! the socket takes bytes again, which are all the times at which it can get on.
//!
//! What bounds a carrier: its streams ([`Options::streams_max`]), of which one client has a share
//! of all alone, however many carriers (shares.rs); what they all send, which is taken of the
//! handler only while the socket takes it, and what comes ahead of the handler ([`CARRIER_BYTES`],
//! [`UPLOAD_BYTES`]); the time without a stream, and that without progress; and resets: a peer that
//! takes back more requests than it lets be answered is sent away (rapid reset, CVE-2023-44487),
//! and so is one that sends more settings (frames.rs). h2 bounds the rest: headers and their
//! continuations, pings, empty frames.
#![forbid(unsafe_code)]

mod answer;
mod carrier;
mod ending;
mod figures;
mod frames;
mod multiplexed;
mod options;
mod pipe;
mod port;
mod ready;
mod request;
mod serve;
mod shares;
mod state;
mod stream;
#[cfg(test)]
mod tests;

pub use figures::Figures;
pub use multiplexed::{CARRIER_BYTES, Multiplexed, UPLOAD_BYTES};
pub use options::Options;
