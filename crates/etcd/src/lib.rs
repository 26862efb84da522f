//! A client of etcd: its JSON gateway (HTTP/1.1) over blocking sockets. A few requests a second and
//! one stream need no more; the client crates bring an async runtime and gRPC.
//!
//! Its users have threads that may wait: kv's ring knows its nodes by leases, and venice's monitors
//! choose one of them, which keeps in etcd what may not be forgotten.
#![forbid(unsafe_code)]

mod answer;
mod client;
mod place;
mod refusal;
mod transaction;

pub use client::{Entry, Etcd, EtcdError};
pub use transaction::{Change, Compare, Transaction};
