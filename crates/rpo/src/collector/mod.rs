//! The collector (the paper's *Request Collector*): how arrivals and completions reach us.
//!
//! ```text
//! Apache, nginx modules ─ records in a file of memory ──▶ ring.rs ───────┐
//! anything ───────────── lines in Unix datagrams ──────▶ lines.rs ──────┼──▶ Record
//! nginx, HAProxy ─────── access log by syslog ─────────▶ access_log.rs ─┘
//! ```
//!
//! A server in this process is watched by what it counts anyway (counters.rs).
//!
//! Nothing that comes is trusted: what is none of what it should be is counted and left out, and
//! each look takes a bounded number of records.

pub mod access_log;
mod counters;
mod datagrams;
mod in_flight;
pub mod lines;
mod record;
mod ring;

pub(crate) use counters::{Counters, Happened};
pub use counters::{Counting, Totals};
pub use datagrams::{DatagramError, Datagrams, Form};
pub(crate) use in_flight::InFlight;
pub use record::{Counts, Record, What};
#[cfg(test)]
pub(crate) use ring::tests::Writer;
pub use ring::{Ring, RingError};
