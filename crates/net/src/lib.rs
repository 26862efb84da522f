//! Bytes in and out, and nothing about what they mean.
//!
//! The server is written as a [`Handler`]: it is told what happened and acts through a [`Port`], so
//! that it does no I/O and reads no clock itself. This crate has the two traits ([`port`]) and the
//! driver that runs a handler on real sockets ([`epoll`]); a simulator can run the same handler on
//! virtual ones.
//!
//! ```text
//!              opened, received, ended, writable, connected,
//!              notified, tick, idle
//!   +--------+ ------------------------------------------> +---------+
//!   | driver |                                             | handler |
//!   +--------+ <------------------------------------------ +---------+
//!              send, close, abort, pause, resume, connect
//! ```
//!
//! Beside them stand what a server's threads need around the loop: [`listener`], [`timer`],
//! [`waker`], [`signal`], [`affinity`], [`resource`] and [`clock`].
// Allowed in one file: datagram/messages.rs.
#![deny(unsafe_code)]

pub mod affinity;
pub mod clock;
pub mod datagram;
pub mod epoll;
pub mod listener;
pub mod outgoing;
pub mod port;
pub mod resource;
pub mod signal;
pub mod slab;
mod sockets;
pub mod table;
pub mod timer;
pub mod waker;
pub mod workers;

pub use datagram::{Datagram, DatagramId, DatagramSocket};
pub use epoll::{Driver, DriverOptions};
pub use listener::{ListenError, ListenOptions, Listener};
pub use outgoing::{Flushed, Outgoing};
pub use port::{
    Accepted, ConnectionId, Ended, Handler, Peer, PeerAddress, Port, Role, Sent, Time, Token,
    WallClock,
};
pub use slab::{Key, Slab};
pub use table::ConnectionTable;
pub use timer::TimerWheel;
pub use waker::Waker;
pub use workers::{Inbox, Place, StartError, Worker, WorkerError, WorkerOptions, Workers};
