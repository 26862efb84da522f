//! The Resource Registration Table: which resources there are, and what of them is idle.
//!
//! Paper, section 5.3: it "tracks available resources in the rack" with "metadata for each
//! resource, including address, size, and capabilities". What is idle is what a node said last, so
//! it may be stale: a donor that is asked for more than it has says so, and another is asked.

use crate::name::NodeName;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// By which channels a resource can be used (paper, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Cacheable remote memory access: pages are fetched as they are touched.
    Crma,
}

impl Channel {
    /// Its name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Channel::Crma => "CRMA",
        }
    }
}

/// A node's memory that can be lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Where its donor was serving when it last lent; not known before.
    pub address: Option<SocketAddr>,
    /// The most that is lent, in bytes.
    pub size: u64,
    /// What of it is idle, by the node's last word, in bytes.
    pub idle: u64,
    /// What of that is asked for since, in bytes.
    pub asked: u64,
    /// How it can be used.
    pub capabilities: &'static [Channel],
}

impl Resource {
    /// What may still be asked for, in bytes.
    pub fn free(&self) -> u64 {
        self.idle.saturating_sub(self.asked)
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Rrt {
    rows: BTreeMap<NodeName, Resource>,
}

impl Rrt {
    /// A node has memory of this size, of which so much is idle.
    pub(super) fn register(&mut self, node: &NodeName, size: u64, idle: u64) {
        let resource = Resource {
            address: None,
            size,
            idle: idle.min(size),
            asked: 0,
            capabilities: &[Channel::Crma],
        };
        self.rows.insert(node.clone(), resource);
    }

    /// A node says what is idle; nothing of what it was asked for is still on its way, but for
    /// `asked` bytes.
    pub(super) fn set_idle(&mut self, node: &NodeName, idle: u64, asked: u64) {
        if let Some(row) = self.rows.get_mut(node) {
            row.idle = idle.min(row.size);
            row.asked = asked;
        }
    }

    /// A node is asked for so much.
    pub(super) fn ask(&mut self, node: &NodeName, bytes: u64) {
        if let Some(row) = self.rows.get_mut(node) {
            row.asked = row.asked.saturating_add(bytes);
        }
    }

    /// A node lent so much, and serves it there.
    pub(super) fn lend(&mut self, node: &NodeName, bytes: u64, address: SocketAddr) {
        if let Some(row) = self.rows.get_mut(node) {
            row.asked = row.asked.saturating_sub(bytes);
            row.idle = row.idle.saturating_sub(bytes);
            row.address = Some(address);
        }
    }

    /// A node has so much back of what it lent, or was asked for, until it says what is idle.
    pub(super) fn give_back(&mut self, node: &NodeName, bytes: u64) {
        if let Some(row) = self.rows.get_mut(node) {
            row.idle = row.idle.saturating_add(bytes).min(row.size);
        }
    }

    /// A node is gone, or may not be asked.
    pub(super) fn remove(&mut self, node: &NodeName) {
        self.rows.remove(node);
    }

    /// All rows, by node.
    pub fn rows(&self) -> impl Iterator<Item = (&NodeName, &Resource)> {
        self.rows.iter()
    }

    /// The row of a node.
    pub fn get(&self, node: &NodeName) -> Option<&Resource> {
        self.rows.get(node)
    }
}
