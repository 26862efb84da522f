//! Who is in a ring, as etcd knows it: keys under a prefix, those of nodes under leases.
//!
//! ```text
//!   PREFIX/nodes/NUMBER   {"name", "client", "backbone"}: a node that is there, under its lease
//!   PREFIX/leave/NAME     a node that is to leave (`rhythm kv ring remove`), while that is waited
//!                         for
//! ```
//!
//! - [`Registration`] is a node's own place among them, in steps over a `Store`: without a thread
//!   or a clock of its own. `joining.rs` is how it comes to one.
//! - [`Kept`] is its threads, one that takes these steps and one that looks at the others' keys.
//! - [`remove`] asks a node to leave.
//!
//! A node may write until its lease ends by its own clock ([`HeldLease`]): by then etcd has not
//! ended it yet, so nobody else serves what it serves.
//!
//! [`HeldLease`]: rhythm_etcd::HeldLease

mod joining;
mod keeping;
mod keys;
mod node;
mod removal;

pub use joining::RegistrationError;
pub use keeping::Kept;
pub use keys::registered;
pub use node::{News, Registration};
pub use removal::remove;

#[cfg(test)]
mod tests;
