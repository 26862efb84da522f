//! The Resource Registration Table: which resources there are, and what of them is idle.
//!
//! Paper, section 5.3: it "tracks available resources in the rack" with "metadata for each
//! resource, including address, size, and capabilities". What is idle is what a node said last, so
//! it may be stale: a donor that is asked for more than it has says so, and another is asked.

use crate::name::NodeName;
use crate::resource::{Kind, Offer, Share};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// By which channels a resource can be used (paper, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Cacheable remote memory access: what is touched is fetched as it is.
    Crma,
    /// Transfers in bulk.
    Rdma,
    /// Messages by queues of pairs.
    Qpair,
    /// None of the paper's: a device's own messages, over TCP.
    Messages,
}

impl Channel {
    /// Its name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Channel::Crma => "CRMA",
            Channel::Rdma => "RDMA",
            Channel::Qpair => "QPair",
            Channel::Messages => "messages",
        }
    }

    /// By which a kind can be used.
    pub const fn all_of(kind: Kind) -> &'static [Channel] {
        match kind {
            Kind::Memory => &[Channel::Crma, Channel::Rdma],
            Kind::Fft | Kind::Aes => &[Channel::Qpair, Channel::Crma, Channel::Rdma],
            Kind::Device => &[Channel::Messages],
        }
    }

    /// By which a loan is used: who has a mailbox alone writes and reads it as memory.
    pub const fn of(share: Share) -> Channel {
        match share.kind {
            Kind::Memory => Channel::Crma,
            Kind::Fft | Kind::Aes if share.is_alone() => Channel::Crma,
            Kind::Fft | Kind::Aes => Channel::Qpair,
            Kind::Device => Channel::Messages,
        }
    }
}

/// What of a kind a node can lend: amounts are bytes of memory, or shares ([`Share`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Where its donor was serving when it last lent; not known before.
    pub address: Option<SocketAddr>,
    /// The most that is lent.
    pub size: u64,
    /// What of it is idle, by the node's last word.
    pub idle: u64,
    /// What of that is asked for since.
    pub asked: u64,
}

impl Resource {
    /// What may still be asked for.
    pub fn free(&self) -> u64 {
        self.idle.saturating_sub(self.asked)
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Rrt {
    rows: BTreeMap<(NodeName, Kind), Resource>,
}

impl Rrt {
    /// A node has these, and nothing else.
    pub(super) fn register(&mut self, node: &NodeName, offers: &[Offer]) {
        self.remove(node);
        for offer in offers {
            let resource = Resource {
                address: None,
                size: offer.size,
                idle: offer.idle.min(offer.size),
                asked: 0,
            };
            self.rows.insert((node.clone(), offer.kind), resource);
        }
    }

    fn get_mut(&mut self, node: &NodeName, kind: Kind) -> Option<&mut Resource> {
        self.rows.get_mut(&(node.clone(), kind))
    }

    /// A node says what is idle of a kind; nothing of what it was asked for is still on its way,
    /// but for `asked`.
    pub(super) fn set_idle(&mut self, node: &NodeName, kind: Kind, idle: u64, asked: u64) {
        if let Some(row) = self.get_mut(node, kind) {
            row.idle = idle.min(row.size);
            row.asked = asked;
        }
    }

    /// A node is asked for so much.
    pub(super) fn ask(&mut self, node: &NodeName, share: Share) {
        if let Some(row) = self.get_mut(node, share.kind) {
            row.asked = row.asked.saturating_add(share.amount);
        }
    }

    /// A node lent so much, and serves it there.
    pub(super) fn lend(&mut self, node: &NodeName, share: Share, address: SocketAddr) {
        if let Some(row) = self.get_mut(node, share.kind) {
            row.asked = row.asked.saturating_sub(share.amount);
            row.idle = row.idle.saturating_sub(share.amount);
            row.address = Some(address);
        }
    }

    /// A node has so much back of what it lent, or was asked for, until it says what is idle.
    pub(super) fn give_back(&mut self, node: &NodeName, share: Share) {
        if let Some(row) = self.get_mut(node, share.kind) {
            row.idle = row.idle.saturating_add(share.amount).min(row.size);
        }
    }

    /// A node is gone, or may not be asked.
    pub(super) fn remove(&mut self, node: &NodeName) {
        for kind in Kind::ALL {
            self.rows.remove(&(node.clone(), kind));
        }
    }

    /// All rows, by node, then by kind.
    pub fn rows(&self) -> impl Iterator<Item = (&NodeName, Kind, &Resource)> {
        self.rows
            .iter()
            .map(|((node, kind), resource)| (node, *kind, resource))
    }

    /// What nodes have of a kind, by node.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = (&NodeName, &Resource)> {
        let rows = self.rows().filter(move |(_, of, _)| *of == kind);
        rows.map(|(node, _, resource)| (node, resource))
    }

    /// The row of a node for a kind.
    pub fn get(&self, node: &NodeName, kind: Kind) -> Option<&Resource> {
        self.rows.get(&(node.clone(), kind))
    }
}
