//! Who is in a keyspace.

use std::net::SocketAddr;

/// A node, as all nodes know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is called.
    pub name: String,
    /// Where clients reach it.
    pub client: SocketAddr,
    /// Where other nodes reach it.
    pub backbone: SocketAddr,
    /// The same as all nodes are told it: a name may stand for another address on each machine.
    pub place: String,
}
