//! Who is in a ring.

use super::placement::SLOTS;
use super::{Placement, Roster};
use crate::etcd::Registration;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
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
    /// All nodes, by their numbers, below 64.
    pub members: BTreeMap<usize, Member>,
    /// Which of them this is.
    pub me: usize,
    /// Where it listens for the others.
    pub listen: SocketAddr,
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
        hasher.finish()
    }
}

/// Who is to serve what of nodes that come and go.
pub(crate) fn ranked(members: &BTreeMap<usize, Member>) -> Roster {
    let names = members.iter();
    let names = names.map(|(number, member)| (*number, member.name.as_str()));
    Roster::ranked(names, SLOTS)
}
