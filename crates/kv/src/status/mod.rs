//! How the nodes of a ring or a keyspace are, for who asks them from outside: what they say to
//! `stats`, asked for, shown and judged.
//!
//! ```text
//!   ask --> Said: names and values --> ring.rs or keyspace.rs --> lines to show, and what lacks
//! ```
//!
//! What nodes say is shown on a terminal, and may be anything: it is bounded, and escaped.

mod ask;
#[cfg(feature = "consensus")]
pub mod keyspace;
mod lacks;
mod place;
pub mod ring;
mod text;

pub use place::NAME_MAX;
