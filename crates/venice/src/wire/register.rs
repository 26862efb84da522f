//! What a node says of itself, of its links, and is told of others.

use super::bytes::{Put, Taker};
use crate::loan::LoanId;
use crate::name::{NAME_MAX, NodeName};
use crate::resource::{Offer, Share};
use std::net::SocketAddr;

/// Nodes of a monitor.
pub const NODES_MAX: usize = 256;
/// Loans of which one node is the lender, and as many of which it is the borrower.
pub const NODE_LOANS_MAX: usize = 4096;

/// What a node says of itself, on each connection first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name.
    pub name: NodeName,
    /// Tells one start of its agent from the next.
    pub incarnation: u64,
    /// Where it stands, from the largest to the smallest (`hall1/rack2`); empty: not known.
    pub place: String,
    /// Where its agent answers link tests of others.
    pub probe: SocketAddr,
    /// What it can lend, of each kind once, in their order.
    pub offers: Vec<Offer>,
    /// What it lends.
    pub lent: Vec<(LoanId, Share)>,
    /// What it borrows.
    pub borrowed: Vec<LoanId>,
}

/// Most bytes of a node's place.
const PLACE_MAX: usize = 256;

/// What a link test found, from the node that says it to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// The other end.
    pub to: NodeName,
    /// Time to there and back, smoothed, in nanoseconds; 0: not known.
    pub latency_ns: u64,
    /// Bytes a second that got through at once; 0: not known.
    pub bandwidth: u64,
    /// Tests without an answer, of 1000.
    pub loss_permille: u16,
    /// Milliseconds since the last answer.
    pub silent_ms: u32,
}

/// Another node, as an agent is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNode {
    /// Its name.
    pub name: NodeName,
    /// Where it answers link tests.
    pub probe: SocketAddr,
}

fn name(taker: &mut Taker<'_>) -> Option<NodeName> {
    let text = taker.text().filter(|text| text.len() <= NAME_MAX)?;
    text.parse().ok()
}

impl Register {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_text(self.name.as_str());
        out.put_u64(self.incarnation);
        out.put_text(&self.place);
        out.put_address(self.probe);
        out.put_offers(&self.offers);
        out.put_u32(self.lent.len() as u32);
        for (loan, share) in &self.lent {
            out.put_u64(loan.0);
            out.put_share(*share);
        }
        out.put_u32(self.borrowed.len() as u32);
        self.borrowed.iter().for_each(|loan| out.put_u64(loan.0));
    }

    pub(super) fn take(from: &mut Taker<'_>) -> Option<Register> {
        let register = Register {
            name: name(from)?,
            incarnation: from.u64()?,
            place: from.text().filter(|text| is_place(text))?.to_owned(),
            probe: from.address()?,
            offers: from.offers()?,
            lent: from.list(17, |from| Some((from.loan()?, from.share()?)))?,
            borrowed: from.list(8, Taker::loan)?,
        };
        let most = register.lent.len().max(register.borrowed.len());
        (most <= NODE_LOANS_MAX).then_some(register)
    }
}

/// Whether a text says where a node stands: parts as of names, with slashes between them.
pub fn is_place(text: &str) -> bool {
    let is_part = |part: &str| part.parse::<NodeName>().is_ok();
    text.is_empty() || text.len() <= PLACE_MAX && text.split('/').all(is_part)
}

impl LinkReport {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_text(self.to.as_str());
        out.put_u64(self.latency_ns);
        out.put_u64(self.bandwidth);
        out.put_u16(self.loss_permille);
        out.put_u32(self.silent_ms);
    }

    pub(super) fn take(from: &mut Taker<'_>) -> Option<LinkReport> {
        Some(LinkReport {
            to: name(from)?,
            latency_ns: from.u64()?,
            bandwidth: from.u64()?,
            loss_permille: from.u16().filter(|loss| *loss <= 1000)?,
            silent_ms: from.u32()?,
        })
    }
}

impl PeerNode {
    pub(super) fn take(from: &mut Taker<'_>) -> Option<PeerNode> {
        Some(PeerNode {
            name: name(from)?,
            probe: from.address()?,
        })
    }
}
