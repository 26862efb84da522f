//! What agents and their monitor say to each other.
//!
//! ```text
//!   agent                                    monitor
//!   Hello(version, number) ----------------->
//!     <------------------------------------- Challenge(number, proof)
//!   Proof, Register(all loans it knows) ---->
//!     <------------------------------------- Registered, Peers, and what became of loans meanwhile
//!
//!   in TLS both have shown certificates, and nothing else is shown:
//!   Hello, Register ------------------------>
//!     <------------------------------------- Registered, ProbeKey, as above
//!
//!   Heartbeat(offers, links) --------------->                             again and again
//!     <------------------------------------- Heard
//!
//!   borrower: Borrow ----------------------->
//!     <------------------------------------- donor: Grant
//!   donor: Granted, or NoRoom -------------->                             NoRoom: another is asked
//!     <------------------------------------- borrower: Lent, or NotLent
//!   borrower: GiveBack --------------------->
//!     <------------------------------------- donor: Revoke
//!   donor: Revoked ------------------------->
//!
//!   donor: Reclaiming ---------------------->
//!     <------------------------------------- borrower: ReclaimWanted
//!   donor: Revoked ------------------------->                             where that took too long
//!     <------------------------------------- borrower: Broken
//!
//!   Leaving -------------------------------->                             a node ends as it should
//! ```
//!
//! A connection brings messages in order and once, or ends. What was lost with one is made up for
//! on the next, where [`Register`] tells all that an agent knows.

use super::bytes::{Put, Taker};
use super::reason::{NotLent, Reason, TurnedAway};
use super::register::{LinkReport, NODES_MAX, PeerNode, Register};
use crate::loan::{LoanId, LoanKey};
use crate::name::NodeName;
use crate::resource::{Offer, Share};
use crate::secret::{Nonce, ProbeKey, Proof};
use std::net::SocketAddr;

/// The version of these messages.
pub const VERSION: u16 = 3;

/// Loans of one program whose donors another loan is to be apart from, at most.
pub const APART_MAX: usize = 8;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the head of this file and the docs of variants say what they are"
)]
pub enum Message {
    /// An agent greets.
    Hello { version: u16, nonce: Nonce },
    /// The monitor shows that it has the secret, and asks for the same.
    Challenge { nonce: Nonce, proof: Proof },
    /// An agent shows it.
    Proof { proof: Proof },
    /// The connection ends, and why.
    Away(TurnedAway),
    /// See [`Register`].
    Register(Register),
    /// A node is there, has so much of each kind, and its links are so.
    Heartbeat {
        offers: Vec<Offer>,
        links: Vec<LinkReport>,
    },
    /// A node asks for a loan; the number is its own. It is to be of another donor than these
    /// loans are, [`APART_MAX`] at most.
    Borrow {
        request: u64,
        share: Share,
        apart: Vec<LoanId>,
    },
    /// A borrower needs a loan no more.
    GiveBack { loan: LoanId },
    /// A donor lends, and serves the borrower there, in TLS or plain.
    Granted {
        loan: LoanId,
        address: SocketAddr,
        is_sealed: bool,
    },
    /// A donor has not so much; what it has.
    NoRoom { loan: LoanId, idle: u64 },
    /// A donor lends this no more, and why.
    Revoked { loan: LoanId, why: Reason },
    /// A donor wants a loan back, and takes it after so many milliseconds.
    Reclaiming { loan: LoanId, within_ms: u32 },
    /// A node is known from now on; it is to be heard of as often.
    Registered { heartbeat_ms: u32 },
    /// All other nodes.
    Peers(Vec<PeerNode>),
    /// A donor is asked to lend.
    Grant {
        loan: LoanId,
        share: Share,
        key: LoanKey,
    },
    /// A donor is told that a loan is over.
    Revoke { loan: LoanId },
    /// A borrower has a loan; of a donor that speaks TLS, its node.
    Lent {
        request: u64,
        loan: LoanId,
        share: Share,
        key: LoanKey,
        donor: SocketAddr,
        sealed_by: Option<NodeName>,
    },
    /// A borrower has none.
    NotLent { request: u64, why: NotLent },
    /// A borrower is told that a loan is over.
    Broken { loan: LoanId, why: Reason },
    /// A borrower is asked to give a loan back within so many milliseconds.
    ReclaimWanted { loan: LoanId, within_ms: u32 },
    /// A heartbeat was heard by a monitor that leads: one that hangs says nothing.
    Heard,
    /// What nodes prove datagrams of link tests by.
    ProbeKey { key: ProbeKey },
    /// A node ends, and lends nothing any more.
    Leaving,
}

impl Message {
    /// Appends the message, without its frame.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Message::Hello { version, nonce } => {
                out.push(1);
                out.put_u16(*version);
                out.extend_from_slice(nonce);
            }
            Message::Challenge { nonce, proof } => {
                out.push(2);
                out.extend_from_slice(nonce);
                out.extend_from_slice(proof);
            }
            Message::Proof { proof } => {
                out.push(3);
                out.extend_from_slice(proof);
            }
            Message::Away(why) => {
                out.push(4);
                why.put(out);
            }
            Message::Register(register) => {
                out.push(5);
                register.put(out);
            }
            Message::Heartbeat { offers, links } => {
                out.push(6);
                out.put_offers(offers);
                out.put_u32(links.len() as u32);
                links.iter().for_each(|link| link.put(out));
            }
            Message::Borrow {
                request,
                share,
                apart,
            } => {
                out.push(7);
                out.put_u64(*request);
                out.put_share(*share);
                out.put_loans(apart);
            }
            Message::GiveBack { loan } => put_loan(out, 8, *loan),
            Message::Granted {
                loan,
                address,
                is_sealed,
            } => {
                put_loan(out, 9, *loan);
                out.put_address(*address);
                out.push(u8::from(*is_sealed));
            }
            Message::NoRoom { loan, idle } => put_two(out, 10, loan.0, *idle),
            Message::Revoked { loan, why } => {
                put_loan(out, 11, *loan);
                why.put(out);
            }
            Message::Reclaiming { loan, within_ms } => {
                put_loan(out, 12, *loan);
                out.put_u32(*within_ms);
            }
            Message::Registered { heartbeat_ms } => {
                out.push(13);
                out.put_u32(*heartbeat_ms);
            }
            Message::Peers(peers) => {
                out.push(14);
                out.put_u32(peers.len() as u32);
                for peer in peers {
                    out.put_text(peer.name.as_str());
                    out.put_address(peer.probe);
                }
            }
            Message::Grant { loan, share, key } => {
                put_loan(out, 15, *loan);
                out.put_share(*share);
                out.extend_from_slice(&key.0);
            }
            Message::Revoke { loan } => put_loan(out, 16, *loan),
            Message::Lent {
                request,
                loan,
                share,
                key,
                donor,
                sealed_by,
            } => {
                put_two(out, 17, *request, loan.0);
                out.put_share(*share);
                out.extend_from_slice(&key.0);
                out.put_address(*donor);
                // No node has a name of no letters.
                out.put_text(sealed_by.as_ref().map_or("", NodeName::as_str));
            }
            Message::NotLent { request, why } => {
                out.push(18);
                out.put_u64(*request);
                why.put(out);
            }
            Message::Broken { loan, why } => {
                put_loan(out, 19, *loan);
                why.put(out);
            }
            Message::ReclaimWanted { loan, within_ms } => {
                put_loan(out, 20, *loan);
                out.put_u32(*within_ms);
            }
            Message::ProbeKey { key } => {
                out.push(21);
                out.extend_from_slice(&key.0);
            }
            Message::Heard => out.push(22),
            Message::Leaving => out.push(23),
        }
    }

    /// The message that these bytes are, all of them.
    pub(super) fn take(bytes: &[u8]) -> Option<Message> {
        let mut taker = Taker(bytes);
        let from = &mut taker;
        let message = match from.u8()? {
            1 => Message::Hello {
                version: from.u16()?,
                nonce: from.array()?,
            },
            2 => Message::Challenge {
                nonce: from.array()?,
                proof: from.array()?,
            },
            3 => Message::Proof {
                proof: from.array()?,
            },
            4 => Message::Away(TurnedAway::take(from)?),
            5 => Message::Register(Register::take(from)?),
            6 => Message::Heartbeat {
                offers: from.offers()?,
                links: bounded(from.list(25, LinkReport::take)?, NODES_MAX)?,
            },
            7 => Message::Borrow {
                request: from.u64()?,
                share: from.share()?,
                apart: bounded(from.list(8, Taker::loan)?, APART_MAX)?,
            },
            8 => Message::GiveBack { loan: from.loan()? },
            9 => Message::Granted {
                loan: from.loan()?,
                address: from.address()?,
                is_sealed: from.bool()?,
            },
            10 => Message::NoRoom {
                loan: from.loan()?,
                idle: from.u64()?,
            },
            11 => Message::Revoked {
                loan: from.loan()?,
                why: Reason::take(from)?,
            },
            12 => Message::Reclaiming {
                loan: from.loan()?,
                within_ms: from.u32()?,
            },
            13 => Message::Registered {
                heartbeat_ms: from.u32()?,
            },
            14 => Message::Peers(bounded(from.list(21, PeerNode::take)?, NODES_MAX)?),
            15 => Message::Grant {
                loan: from.loan()?,
                share: from.share()?,
                key: LoanKey(from.array()?),
            },
            16 => Message::Revoke { loan: from.loan()? },
            17 => Message::Lent {
                request: from.u64()?,
                loan: from.loan()?,
                share: from.share()?,
                key: LoanKey(from.array()?),
                donor: from.address()?,
                sealed_by: from.name()?,
            },
            18 => Message::NotLent {
                request: from.u64()?,
                why: NotLent::take(from)?,
            },
            19 => Message::Broken {
                loan: from.loan()?,
                why: Reason::take(from)?,
            },
            20 => Message::ReclaimWanted {
                loan: from.loan()?,
                within_ms: from.u32()?,
            },
            21 => Message::ProbeKey {
                key: ProbeKey(from.array()?),
            },
            22 => Message::Heard,
            23 => Message::Leaving,
            _ => return None,
        };
        taker.0.is_empty().then_some(message)
    }
}

fn put_loan(out: &mut Vec<u8>, kind: u8, loan: LoanId) {
    out.push(kind);
    out.put_u64(loan.0);
}

fn put_two(out: &mut Vec<u8>, kind: u8, first: u64, second: u64) {
    out.push(kind);
    out.put_u64(first);
    out.put_u64(second);
}

pub(super) fn bounded<T>(list: Vec<T>, most: usize) -> Option<Vec<T>> {
    (list.len() <= most).then_some(list)
}
