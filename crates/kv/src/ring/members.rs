//! Who is in a ring.

use rhythm_net::Time;
use std::net::SocketAddr;

/// A node of a ring, as all nodes know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is called.
    pub name: String,
    /// The host by which clients know it, as they write it.
    pub host: String,
    /// The port by which clients know it.
    pub port: u16,
    /// Where other nodes reach it over TCP.
    pub backbone: SocketAddr,
    /// The same as all nodes are told it: a name may stand for another address on each machine.
    pub place: String,
}

impl Member {
    /// Where clients reach it: `HOST:PORT`.
    pub fn at(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// A node's lease, where nodes come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Until when it is there in any case.
    pub until: Time,
    /// Which it is. The lease before it ended, if this is another: others may have taken what this
    /// node served.
    pub number: i64,
    /// A revision of etcd's when it was given: greater than that of any lease given before it.
    pub revision: i64,
}
