//! A client of etcd: its JSON gateway (HTTP/1.1) over blocking sockets. A few requests a second and
//! one stream need no more; the client crates bring an async runtime and gRPC.
//!
//! Its users have threads that may wait: kv's ring knows its nodes by leases, and venice's monitors
//! choose one of them, which keeps in etcd what may not be forgotten. What they do there is steps
//! over a [`Store`], without a thread: etcd, or a model of it. [`HeldLease`] is what both do alike.
//!
//! For who tests them: `testing`, a store in memory, and servers of etcd as processes.
#![forbid(unsafe_code)]

mod answer;
mod client;
mod error;
mod lease;
mod place;
mod refusal;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transaction;

pub use client::Etcd;
pub use error::EtcdError;
pub use lease::{AGAIN, HeldLease};
pub use store::{At, Entry, Renewed, Store};
pub use transaction::{Change, Compare, Transaction};
