//! A ring, as one of its nodes is told of it at the start: by a file, or by etcd.

use crate::checksum::checksum;
use crate::etcd::Registration;
use crate::ring::{Member, Placement, Roster, ranked};
use std::collections::BTreeMap;
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

    /// Which key is in which range: nodes that stay have one each.
    pub fn placement(&self) -> Placement {
        let servers = self.members.values();
        match &self.etcd {
            None => Placement::new(servers.map(|member| (member.host.as_str(), member.port))),
            Some(_) => Placement::slots(),
        }
    }

    /// Who is to serve what.
    pub fn roster(&self) -> Roster {
        match &self.etcd {
            None => Roster::round(self.members.len()),
            Some(_) => ranked(&self.members),
        }
    }

    /// A number that tells this ring from others: nodes that were told of other members, or of
    /// another prefix in etcd, do not speak to each other.
    pub fn digest(&self) -> u64 {
        let mut of = match &self.etcd {
            None => {
                let lines = self.members.values().map(|member| {
                    let (name, host, port) = (&member.name, &member.host, member.port);
                    format!("{name} {host}:{port} {}\n", member.backbone)
                });
                lines.collect::<String>().into_bytes()
            }
            Some(registration) => registration.prefix().into(),
        };
        of.extend([self.replicas as u8, u8::from(self.is_acked)]);
        checksum([0, 0], &of)
    }
}
