//! The nodes of a monitor: who is there, and by when it has to be heard of.

use super::deadline::Deadline;
use crate::name::NodeName;
use crate::wire::PeerNode;
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Tells one start of its agent from the next.
    pub(super) incarnation: u64,
    /// The connection to it, if there is one.
    pub(super) connection: Option<u64>,
    /// Where it stands, from the largest to the smallest; empty: not known.
    pub place: String,
    /// Where it answers link tests; not known of one that has not come since the monitor began.
    pub(super) probe: Option<SocketAddr>,
    /// When it was last heard of.
    pub heard_at: Time,
    /// When it is dead unless it is heard of.
    pub(super) dead_at: Deadline,
}

impl Node {
    /// One that is known from loans alone.
    pub(super) fn expected(now: Time, dead_at: Time) -> Node {
        Node {
            incarnation: 0,
            connection: None,
            place: String::new(),
            probe: None,
            heard_at: now,
            dead_at: Deadline::new(dead_at),
        }
    }

    /// Whether there is a connection to it.
    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Nodes {
    rows: BTreeMap<NodeName, Node>,
}

impl Nodes {
    pub(super) fn insert(&mut self, name: NodeName, node: Node) {
        self.rows.insert(name, node);
    }

    pub(super) fn remove(&mut self, name: &NodeName) -> Option<Node> {
        self.rows.remove(name)
    }

    /// A node.
    pub fn get(&self, name: &NodeName) -> Option<&Node> {
        self.rows.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &NodeName) -> Option<&mut Node> {
        self.rows.get_mut(name)
    }

    /// The connection to a node, if there is one.
    pub(super) fn connection(&self, name: &NodeName) -> Option<u64> {
        self.rows.get(name)?.connection
    }

    /// All nodes, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&NodeName, &Node)> {
        self.rows.iter()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Nobody listened for a while, until now: those that would be dead before `soon` are as much
    /// later as [`Deadline::excuse`] says.
    pub(super) fn excuse(&mut self, soon: Time, now: Time, later: (Duration, Duration)) {
        for node in self.rows.values_mut() {
            node.dead_at.excuse(soon, now, later);
        }
    }

    /// Those that are dead by now.
    pub(super) fn dead(&self, now: Time) -> Vec<NodeName> {
        let dead = self.rows.iter();
        let dead = dead.filter(|(_, node)| node.dead_at.is_over(now));
        dead.map(|(name, _)| name.clone()).collect()
    }

    /// Those that are there, as others are told of them.
    pub(super) fn peers(&self) -> Vec<PeerNode> {
        let peers = self.rows.iter().filter(|(_, node)| node.is_connected());
        let peer = |(name, node): (&NodeName, &Node)| {
            let name = name.clone();
            node.probe.map(|probe| PeerNode { name, probe })
        };
        peers.filter_map(peer).collect()
    }
}
