//! Bytes in and out, and nothing about what they mean: the loop under every server here.
//!
//! A server is written as a [`Handler`]: it is told what happened and acts through a [`Port`], so
//! that it does no I/O and reads no clock itself. This crate has the two traits ([`port`]), the
//! driver that runs a handler on real sockets ([`epoll`]), and the threads that each run a driver
//! ([`workers`]); a simulator can run the same handler on virtual sockets.
//!
//! ```text
//!   start(options, entrances, make)      one listener or datagram socket of each entrance a thread
//!     |
//!     |  thread 0 (a core)                                     thread 1 ...
//!     |  +--------------------------------------------------+  +-------------------------------
//!     +->|            opened, received, ended, writable,    |  |
//!     |  |            connected, datagrams, notified,       |  |    share nothing
//!     |  |            tick, idle                            |  |
//!     |  |  +--------+ ---------------------> +---------+   |  |
//!     |  |  | Driver |                        | Handler |   |  |
//!     |  |  +--------+ <--------------------- +---------+   |  |
//!     |  |   | epoll   send, close, abort,      with its      |  |
//!     |  |   |         pause, resume, connect,  connections,  |  |
//!     |  |   |         send_datagrams           timers, ...   |  |
//!     |  +---|----------------------------------------------+  +-------------------------------
//!     |      v
//!     |    sockets: clients' (with the role of their listener), our own (to a Peer), datagrams'
//!     |
//!   Workers: Inbox.send(command) --> Worker::obey     stop, join     a panic: a thread starts anew
//! ```
//!
//! A small server whole: `examples/line_server.rs` (TCP) and `examples/udp_echo.rs`.
//!
//! What stands around the loop:
//! - For a handler: [`table`] (what it keeps of each connection), [`outgoing`] (bytes that the
//!   socket did not take), [`timer`], [`slab`] (values under keys that do not outlive them).
//! - Between driver and handler: [`layer`], where TLS goes in.
//! - For who starts it: [`listener`], [`Addresses`] (connections of each), [`datagram`],
//!   [`signal`], [`resource`], and [`waker`] and [`clock`].
// Allowed in one file: datagram/messages.rs.
#![deny(unsafe_code)]

mod addresses;
mod affinity;
pub mod clock;
pub mod datagram;
pub mod epoll;
pub mod layer;
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

pub use addresses::Addresses;
pub use datagram::DatagramSocket;
pub use epoll::{Driver, DriverOptions};
pub use layer::{Codec, Codecs, Layer};
pub use listener::{ListenError, ListenOptions, Listener};
pub use outgoing::{Flushed, Outgoing, Part};
pub use port::{
    Accepted, ConnectionId, Datagram, DatagramId, Ended, Handler, Peer, PeerAddress, Port, Role,
    Sent, Time, Token, WallClock,
};
pub use slab::{Key, Slab};
pub use table::ConnectionTable;
pub use timer::TimerWheel;
pub use waker::Waker;
pub use workers::{Inbox, Place, StartError, Worker, WorkerError, WorkerOptions, Workers};
