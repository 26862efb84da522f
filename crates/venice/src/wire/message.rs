//! What agents and their monitor say to each other.
//!
//! ```text
//!   agent                                    monitor
//!   Hello(version, number) ----------------->
//!     <------------------------------------- Challenge(number, proof)
//!   Proof, Register(all loans it knows) ---->
//!     <------------------------------------- Registered, Peers, and what became of loans meanwhile
//!   Heartbeat(idle, links) ----------------->                             again and again
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
//! ```
//!
//! A connection brings messages in order and once, or ends. What was lost with one is made up for
//! on the next, where [`Register`] tells all that an agent knows.

use super::bytes::{Put, Taker};
use crate::loan::{LoanId, LoanKey};
use crate::name::{NAME_MAX, NodeName};
use crate::secret::{Nonce, Proof};
use std::fmt;
use std::net::SocketAddr;

/// The version of these messages.
pub const VERSION: u16 = 1;
/// Nodes of a monitor.
pub const NODES_MAX: usize = 256;
/// Loans of which one node is the lender, and as many of which it is the borrower.
pub const NODE_LOANS_MAX: usize = 4096;

/// Why a loan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The borrower gave it back.
    GivenBack,
    /// The borrower's node is gone.
    BorrowerGone,
    /// The donor's node is gone, and the memory with it.
    DonorGone,
    /// The donor needs its memory itself, and it was not given back in time.
    DonorNeedsIt,
    /// One of its ends, or the monitor, does not know it.
    NotKnown,
    /// The donor did not answer in time.
    NoAnswer,
}

impl Reason {
    pub(super) const ALL: [Reason; 6] = [
        Reason::GivenBack,
        Reason::BorrowerGone,
        Reason::DonorGone,
        Reason::DonorNeedsIt,
        Reason::NotKnown,
        Reason::NoAnswer,
    ];

    /// A word for it, in figures and JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Reason::GivenBack => "given_back",
            Reason::BorrowerGone => "borrower_gone",
            Reason::DonorGone => "donor_gone",
            Reason::DonorNeedsIt => "donor_needs_it",
            Reason::NotKnown => "not_known",
            Reason::NoAnswer => "no_answer",
        }
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.push(self as u8);
    }

    pub(super) fn take(taker: &mut Taker<'_>) -> Option<Reason> {
        Reason::ALL.get(usize::from(taker.u8()?)).copied()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::GivenBack => "the borrower gave it back",
            Reason::BorrowerGone => "the borrower's node is gone",
            Reason::DonorGone => "the donor's node is gone, and what was kept there with it",
            Reason::DonorNeedsIt => "the donor needs its memory, and did not get it back in time",
            Reason::NotKnown => "one of its ends does not know it, such as after a restart",
            Reason::NoAnswer => "the donor did not answer in time",
        })
    }
}

/// Why nothing is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLent {
    /// No node has so much left; the most that any has, in bytes.
    NoRoom {
        /// Of the node that has most.
        most: u64,
    },
    /// As many loans are there as may be.
    TooMany,
    /// The monitor cannot write down what it lends.
    NoDisk,
    /// No monitor is reached, or it did not answer in time.
    NoMonitor,
}

impl NotLent {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        let (kind, most) = match self {
            NotLent::NoRoom { most } => (0, most),
            NotLent::TooMany => (1, 0),
            NotLent::NoDisk => (2, 0),
            NotLent::NoMonitor => (3, 0),
        };
        out.push(kind);
        out.put_u64(most);
    }

    pub(super) fn take(taker: &mut Taker<'_>) -> Option<NotLent> {
        match (taker.u8()?, taker.u64()?) {
            (0, most) => Some(NotLent::NoRoom { most }),
            (1, 0) => Some(NotLent::TooMany),
            (2, 0) => Some(NotLent::NoDisk),
            (3, 0) => Some(NotLent::NoMonitor),
            _ => None,
        }
    }
}

impl fmt::Display for NotLent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotLent::NoRoom { most: 0 } => f.write_str("no other node has memory to lend"),
            NotLent::NoRoom { most } => {
                write!(f, "no other node has so much to lend; the most is {most} bytes")
            }
            NotLent::TooMany => f.write_str("there are as many loans as may be; give some back"),
            NotLent::NoDisk => f.write_str(
                "the monitor's disk is full, and what is lent must be written down; make room there",
            ),
            NotLent::NoMonitor => {
                f.write_str("the monitor is not reached, or does not answer; see the agent's log")
            }
        }
    }
}

/// Why a node is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// Its version is another.
    Version,
    /// It does not have the secret.
    Secret,
    /// A node of this name is there.
    NameTaken,
    /// There are as many nodes as may be.
    TooMany,
}

impl fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TurnedAway::Version => "its version of the messages is another; run the same release",
            TurnedAway::Secret => "the shared secret is another; compare the files of --key-file",
            TurnedAway::NameTaken => "another node of this name is there; say another --name",
            TurnedAway::TooMany => "the monitor has as many nodes as it takes",
        })
    }
}

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
    /// The most that it lends, in bytes.
    pub size: u64,
    /// What of that is idle now.
    pub idle: u64,
    /// What it lends: loans and their bytes.
    pub lent: Vec<(LoanId, u64)>,
    /// What it borrows.
    pub borrowed: Vec<LoanId>,
}

/// Most bytes of a node's place.
pub const PLACE_MAX: usize = 256;

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
    /// A node is there, has so much idle, and its links are so.
    Heartbeat { idle: u64, links: Vec<LinkReport> },
    /// A node asks for a loan; the number is its own.
    Borrow { request: u64, bytes: u64 },
    /// A borrower needs a loan no more.
    GiveBack { loan: LoanId },
    /// A donor lends, and serves the borrower there.
    Granted { loan: LoanId, address: SocketAddr },
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
        bytes: u64,
        key: LoanKey,
    },
    /// A donor is told that a loan is over.
    Revoke { loan: LoanId },
    /// A borrower has a loan.
    Lent {
        request: u64,
        loan: LoanId,
        bytes: u64,
        key: LoanKey,
        donor: SocketAddr,
    },
    /// A borrower has none.
    NotLent { request: u64, why: NotLent },
    /// A borrower is told that a loan is over.
    Broken { loan: LoanId, why: Reason },
    /// A borrower is asked to give a loan back within so many milliseconds.
    ReclaimWanted { loan: LoanId, within_ms: u32 },
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
            Message::Away(why) => out.extend_from_slice(&[4, *why as u8]),
            Message::Register(register) => {
                out.push(5);
                register.put(out);
            }
            Message::Heartbeat { idle, links } => {
                out.push(6);
                out.put_u64(*idle);
                out.put_u32(links.len() as u32);
                links.iter().for_each(|link| link.put(out));
            }
            Message::Borrow { request, bytes } => put_two(out, 7, *request, *bytes),
            Message::GiveBack { loan } => put_loan(out, 8, *loan),
            Message::Granted { loan, address } => {
                put_loan(out, 9, *loan);
                out.put_address(*address);
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
            Message::Grant { loan, bytes, key } => {
                put_two(out, 15, loan.0, *bytes);
                out.extend_from_slice(&key.0);
            }
            Message::Revoke { loan } => put_loan(out, 16, *loan),
            Message::Lent {
                request,
                loan,
                bytes,
                key,
                donor,
            } => {
                put_two(out, 17, *request, loan.0);
                out.put_u64(*bytes);
                out.extend_from_slice(&key.0);
                out.put_address(*donor);
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
            4 => Message::Away(match from.u8()? {
                0 => TurnedAway::Version,
                1 => TurnedAway::Secret,
                2 => TurnedAway::NameTaken,
                3 => TurnedAway::TooMany,
                _ => return None,
            }),
            5 => Message::Register(Register::take(from)?),
            6 => Message::Heartbeat {
                idle: from.u64()?,
                links: bounded(from.list(25, LinkReport::take)?, NODES_MAX)?,
            },
            7 => Message::Borrow {
                request: from.u64()?,
                bytes: from.u64()?,
            },
            8 => Message::GiveBack { loan: loan(from)? },
            9 => Message::Granted {
                loan: loan(from)?,
                address: from.address()?,
            },
            10 => Message::NoRoom {
                loan: loan(from)?,
                idle: from.u64()?,
            },
            11 => Message::Revoked {
                loan: loan(from)?,
                why: Reason::take(from)?,
            },
            12 => Message::Reclaiming {
                loan: loan(from)?,
                within_ms: from.u32()?,
            },
            13 => Message::Registered {
                heartbeat_ms: from.u32()?,
            },
            14 => Message::Peers(bounded(from.list(21, PeerNode::take)?, NODES_MAX)?),
            15 => Message::Grant {
                loan: loan(from)?,
                bytes: from.u64()?,
                key: LoanKey(from.array()?),
            },
            16 => Message::Revoke { loan: loan(from)? },
            17 => Message::Lent {
                request: from.u64()?,
                loan: loan(from)?,
                bytes: from.u64()?,
                key: LoanKey(from.array()?),
                donor: from.address()?,
            },
            18 => Message::NotLent {
                request: from.u64()?,
                why: NotLent::take(from)?,
            },
            19 => Message::Broken {
                loan: loan(from)?,
                why: Reason::take(from)?,
            },
            20 => Message::ReclaimWanted {
                loan: loan(from)?,
                within_ms: from.u32()?,
            },
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

fn loan(taker: &mut Taker<'_>) -> Option<LoanId> {
    taker.u64().map(LoanId)
}

fn name(taker: &mut Taker<'_>) -> Option<NodeName> {
    let text = taker.text().filter(|text| text.len() <= NAME_MAX)?;
    text.parse().ok()
}

fn bounded<T>(list: Vec<T>, most: usize) -> Option<Vec<T>> {
    (list.len() <= most).then_some(list)
}

impl Register {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_text(self.name.as_str());
        out.put_u64(self.incarnation);
        out.put_text(&self.place);
        out.put_address(self.probe);
        out.put_u64(self.size);
        out.put_u64(self.idle);
        out.put_u32(self.lent.len() as u32);
        for (loan, bytes) in &self.lent {
            out.put_u64(loan.0);
            out.put_u64(*bytes);
        }
        out.put_u32(self.borrowed.len() as u32);
        self.borrowed.iter().for_each(|loan| out.put_u64(loan.0));
    }

    fn take(from: &mut Taker<'_>) -> Option<Register> {
        let register = Register {
            name: name(from)?,
            incarnation: from.u64()?,
            place: from.text().filter(|text| is_place(text))?.to_owned(),
            probe: from.address()?,
            size: from.u64()?,
            idle: from.u64()?,
            lent: from.list(16, |from| Some((loan(from)?, from.u64()?)))?,
            borrowed: from.list(8, loan)?,
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
    fn put(&self, out: &mut Vec<u8>) {
        out.put_text(self.to.as_str());
        out.put_u64(self.latency_ns);
        out.put_u64(self.bandwidth);
        out.put_u16(self.loss_permille);
        out.put_u32(self.silent_ms);
    }

    fn take(from: &mut Taker<'_>) -> Option<LinkReport> {
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
    fn take(from: &mut Taker<'_>) -> Option<PeerNode> {
        Some(PeerNode {
            name: name(from)?,
            probe: from.address()?,
        })
    }
}
