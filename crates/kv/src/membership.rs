//! A ring, as one of its nodes is told of it at the start: by a file, or by etcd.

use crate::etcd::Registration;
use crate::ring::{Member, Placement, Roster, Scheme};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::SocketAddr;

/// How a node reaches the others, and they it. All of a ring do it in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over TCP: it listens here.
    Tcp(SocketAddr),
    /// By Ethernet frames on the interface of this name.
    Ether(String),
}

/// A ring, and a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// All nodes, by their numbers, below 64.
    pub members: BTreeMap<usize, Member>,
    /// Which of them this is.
    pub me: usize,
    /// How it reaches the others.
    pub transport: Transport,
    /// How copies are kept.
    pub scheme: Scheme,
    /// How many nodes have what one serves, beside it.
    pub replicas: usize,
    /// Writes are confirmed to clients when the copies exist.
    pub is_acked: bool,
    /// This node among those that etcd knows, which come and go; none: they stay.
    pub etcd: Option<Registration>,
}

impl Membership {
    /// This node.
    pub fn this(&self) -> &Member {
        &self.members[&self.me]
    }

    /// Which key is in which range.
    pub fn placement(&self) -> Placement {
        let servers = self.members.values();
        match &self.etcd {
            None => {
                (self.scheme).placement(servers.map(|member| (member.host.as_str(), member.port)))
            }
            Some(_) => self.scheme.slots(),
        }
    }

    /// Who is to serve what.
    pub fn roster(&self) -> Roster {
        match &self.etcd {
            None => self.scheme.round(self.members.len()),
            Some(_) => self.scheme.ranked(&self.members),
        }
    }

    /// A number that tells this ring from others: nodes that were told of other members, or of
    /// another prefix in etcd, do not speak to each other.
    pub fn digest(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        match &self.etcd {
            None => {
                for member in self.members.values() {
                    let (name, host, port) = (&member.name, &member.host, member.port);
                    let line = format!("{name} {host}:{port} {}\n", member.backbone);
                    hasher.write(line.as_bytes());
                }
            }
            Some(registration) => hasher.write(registration.prefix().as_bytes()),
        }
        hasher.write(&[self.replicas as u8, u8::from(self.is_acked)]);
        hasher.write(self.scheme.name().as_bytes());
        hasher.finish()
    }
}
