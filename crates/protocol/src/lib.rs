//! Protocols as pure functions: bytes in, messages out, and back. Nothing here does I/O or reads a
//! clock.
//!
//! - [`scan`]: SIMD search over bytes, chosen at run time; the one part with `unsafe`.
//! - [`http`]: HTTP/1.1 requests and responses (RFC 9110, RFC 9112), for servers and clients.
//! - [`html`]: escaping of text.
//! - [`calendar`]: days and dates.
//! - [`besim`]: the protocol of the Banking workload's backend simulator.
//!
//! Parsers hand out offsets into the caller's bytes and allocate nothing. What the outside world
//! gets wrong is a small flat error value, never a panic.

pub mod besim;
pub mod calendar;
pub mod html;
pub mod http;
pub mod scan;
