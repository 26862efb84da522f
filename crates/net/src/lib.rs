//! Bytes in and out, and nothing about what they mean: the loop under every server here.
//!
//! A server is written as a [`Handler`]: it is told what happened and acts through a [`Port`], so
//! that it does no I/O and reads no clock itself. This crate has the two traits ([`port`]), the
//! driver that runs a handler on real sockets ([`driver`]), and the threads that each run a driver
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
//! - Between driver and handler: [`layer`], where TLS goes in (`tls`).
//! - For what blocks: [`local`], threads of this process that are reached as peers are.
//! - For who logs: [`sparse`], lines that anybody can cause.
//! - For who starts it: [`signal`], [`resource`], [`clock`], and [`files`] that somebody named.
//! - For who tests a handler: `testing`, a port in memory.
// Allowed in two files: driver/datagram/messages.rs and driver/epoll/coarse.rs.
#![deny(unsafe_code)]

pub mod clock;
pub mod driver;
pub mod files;
pub mod layer;
pub mod local;
pub mod outgoing;
pub mod port;
mod pulse;
pub mod resource;
pub mod signal;
pub mod slab;
pub mod sparse;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod timer;
#[cfg(feature = "tls")]
pub mod tls;
pub mod workers;

pub use driver::addresses::Addresses;
pub use driver::datagram::{DatagramSocket, Link, LinkError};
pub use driver::epoll::{Driver, DriverOptions};
pub use driver::listen_error::ListenError;
pub use driver::listener::{ListenOptions, Listener};
pub use driver::places::Places;
pub use driver::unix::{SocketFile, listen_at};
pub use driver::waker::Waker;
pub use layer::{Codec, Codecs, Layer};
pub use local::LocalListener;
pub use outgoing::{Flushed, Outgoing, Part, Shared};
pub use port::{
    Accepted, Client, ConnectionId, Datagram, DatagramId, Ended, Handler, Peer, PeerAddress, Port,
    Role, Seal, Sent, TURN_MAX, Time, Token, WallClock, send_each,
};
pub use slab::{Key, Slab};
pub use table::ConnectionTable;
pub use timer::TimerWheel;
pub use workers::{Inbox, StartError, Worker, WorkerError, WorkerOptions, WorkerThread, Workers};
