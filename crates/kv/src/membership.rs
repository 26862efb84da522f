//! A ring, as one of its nodes is told of it at the start: by a file, or by etcd.

use crate::etcd::Registration;
use crate::ring::{Member, Placement, Roster, Scheme, Terms};
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

    /// What this node was told that all are to be told alike; of items, that they have so many
    /// bytes at most.
    pub fn terms(&self, item_max: u64) -> Terms {
        let replicate = if self.is_acked { "acked" } else { "async" };
        let mut told = vec![
            ("--scheme".to_owned(), self.scheme.name().to_owned()),
            ("--replicas".to_owned(), self.replicas.to_string()),
            ("--replicate".to_owned(), replicate.to_owned()),
            ("-I".to_owned(), item_max.to_string()),
        ];
        match &self.etcd {
            None => told.extend(self.members.values().enumerate().map(|(index, member)| {
                let (name, host, port) = (&member.name, &member.host, member.port);
                let value = format!("{name} {host}:{port} {}", member.backbone);
                (format!("node {} of the file", index + 1), value)
            })),
            Some(registration) => {
                let lasts = registration.lasts().as_secs();
                told.push(("--ring".to_owned(), registration.prefix().to_owned()));
                told.push(("--lease".to_owned(), lasts.to_string()));
            }
        }
        Terms::new(&self.this().name, told)
    }
}
