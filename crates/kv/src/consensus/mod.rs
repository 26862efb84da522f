//! A small keyspace that several nodes agree on, by consensus: whichever node is asked, what was
//! confirmed is seen, and nothing confirmed is lost while most of the nodes have their folders.
//!
//! ```text
//!   clients -- text.rs --> server/ -- Node: batches, reads, leases <--- frames ---> other nodes
//!                                      |        |
//!                         raft (a library)   Keyspace: items, leases
//!                                      |
//!                                   Journal --> Folder: written and synced before it is told
//! ```
//!
//! [`Node`] has no I/O and reads no clock: it is given requests, frames and the time, and gives
//! frames and answers; what it writes goes to a [`Disk`]. A simulator drives it as the server does.
//! What nodes agree on is a log of batches of commands (Ongaro and Ousterhout, *In Search of an
//! Understandable Consensus Algorithm*, 2014); each node's [`Keyspace`] is what comes of executing
//! them in that order. Reads are not in the log: they are answered when most nodes have said, after
//! the read came, that the leader still leads (Ongaro's thesis, section 6.4).

mod journal;
mod keyspace;
mod node;
pub mod server;
pub mod text;
mod wire;

pub use journal::{Damaged, Disk, Folder, FolderError, Unwritten};
pub use keyspace::{
    BYTES_MAX, Change, Command, Item, KEYS_MAX, Keyspace, LEASES_MAX, Outcome, VALUE_MAX,
};
pub use node::{
    Answer, Effects, EndError, Node, OpenError, Options, Read, Request, Status, TICK, Ticket,
};
pub use wire::NoFrame;
