//! Who is in a ring.

use super::{Placement, Roster};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
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
    /// Where other nodes reach it.
    pub backbone: SocketAddr,
}

/// A ring, and a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// All nodes, in their order round the ring; 64 at most.
    pub members: Vec<Member>,
    /// Which of them this is.
    pub me: usize,
    /// Where it listens for the others.
    pub listen: SocketAddr,
    /// How many nodes have what one serves, beside it.
    pub replicas: usize,
    /// Writes are confirmed to clients when the copies exist.
    pub is_acked: bool,
}

impl Membership {
    /// Which node owns what.
    pub fn placement(&self) -> Placement {
        let servers = self.members.iter();
        Placement::new(servers.map(|member| (member.host.as_str(), member.port)))
    }

    /// Who is to serve what.
    pub fn roster(&self) -> Roster {
        Roster::round(self.members.len())
    }

    /// A number that tells this ring from others: nodes that were told of other members do not
    /// speak to each other.
    pub fn digest(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        for member in &self.members {
            let (name, host, port) = (&member.name, &member.host, member.port);
            let line = format!("{name} {host}:{port} {}\n", member.backbone);
            hasher.write(line.as_bytes());
        }
        hasher.write(&[self.replicas as u8, u8::from(self.is_acked)]);
        hasher.finish()
    }
}
