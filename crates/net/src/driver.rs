//! Drivers: what runs a handler. The one on real sockets waits on epoll.
//!
//! `epoll.rs` is the loop and `sockets.rs` what it knows of each socket; they come in by
//! [`listener`]s (`addresses.rs` counts each client's, `places.rs` those of all workers, `unix.rs`
//! has files of sockets, `listen_error.rs` says why there is none) and as [`datagram`] sockets, and
//! other threads come in by a [`waker`].

pub(crate) mod addresses;
pub mod datagram;
pub mod epoll;
pub(crate) mod listen_error;
pub mod listener;
pub(crate) mod places;
mod sockets;
pub(crate) mod unix;
pub mod waker;
