//! Who is in a ring, as etcd knows it: keys under a prefix, those of nodes under leases.
//!
//! ```text
//!   PREFIX/nodes/NUMBER   {"name", "client", "backbone"}: a node that is there, under its lease
//!   PREFIX/leave/NAME     a node that is to leave (`rhythm kv ring remove`), while that is waited
//!                         for
//! ```
//!
//! - [`rhythm_etcd`] speaks to etcd.
//! - [`Registration`] is a node's own place among them, and what keeps it.
//!
//! A node may write until its lease ends by its own clock, counted from before the renewal was
//! asked for: by then etcd has not ended it yet, so nobody else serves what it serves.

mod registration;
mod removal;

pub use registration::{Kept, News, Registration, RegistrationError, registered};
pub use removal::remove;
pub use rhythm_etcd::{Etcd, EtcdError};
