//! A drop-in memcached server that works in cohorts: what one turn of the loop read is parsed,
//! hashed, prefetched, probed and answered step by step for all of it.
//!
//! ```text
//!   bytes of the turn    cohort --- wire: commands --- store: hash, prefetch --- execute: answers
//!     ^                                                                             |
//!     +------------------- server: connections, datagrams, threads -----------------+
//! ```
//!
//! [`wire`] turns bytes into commands, without I/O. [`store`] holds the items; it does no I/O
//! either, and reads no clock. [`execute`] is memcached's semantics of each command over the store.
//! [`cohort`] is what one turn brought, `class` which commands are told of together; [`server`] has
//! the connections, on `rhythm_net`'s threads.
//!
//! [`ring`] keeps copies on other nodes ([`membership`]), which a file or etcd knows
//! ([`registration`]); `consensus` is a keyspace that nodes agree on, a server of its own. How the
//! nodes of either are, [`status`] asks them.
#![deny(unsafe_code)]

mod bytes;
mod checksum;
mod class;
pub mod cohort;
#[cfg(feature = "consensus")]
pub mod consensus;
mod counters;
pub mod execute;
mod input;
mod lines;
pub mod membership;
pub mod registration;
pub mod ring;
pub mod server;
pub mod shared;
pub mod status;
pub mod store;
pub mod wire;
