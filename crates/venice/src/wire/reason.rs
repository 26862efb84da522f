//! Why loans end, why nothing is lent, and why nodes are turned away.

use super::bytes::{Put, Taker};
use crate::resource::{Kind, Share};
use std::fmt;

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
            Reason::DonorNeedsIt => "the donor needs it itself, and did not get it back in time",
            Reason::NotKnown => "one of its ends does not know it, such as after a restart",
            Reason::NoAnswer => "the donor did not answer in time",
        })
    }
}

/// Why nothing is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLent {
    /// No node has so much left.
    NoRoom {
        /// What the node has that has most.
        most: Share,
    },
    /// As many loans are there as may be.
    TooMany,
    /// The monitor cannot write down what it lends.
    NoDisk,
    /// No monitor is reached, or it did not answer in time.
    NoMonitor,
    /// The agent is about to end.
    AgentEnds,
    /// Who would lend does not speak TLS, which this node wants.
    Plain,
}

impl NotLent {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.push(match self {
            NotLent::NoRoom { .. } => 0,
            NotLent::TooMany => 1,
            NotLent::NoDisk => 2,
            NotLent::NoMonitor => 3,
            NotLent::AgentEnds => 4,
            NotLent::Plain => 5,
        });
        if let NotLent::NoRoom { most } = self {
            out.put_share(most);
        }
    }

    pub(super) fn take(taker: &mut Taker<'_>) -> Option<NotLent> {
        Some(match taker.u8()? {
            0 => NotLent::NoRoom {
                most: taker.share()?,
            },
            1 => NotLent::TooMany,
            2 => NotLent::NoDisk,
            3 => NotLent::NoMonitor,
            4 => NotLent::AgentEnds,
            5 => NotLent::Plain,
            _ => return None,
        })
    }
}

impl fmt::Display for NotLent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotLent::NoRoom { most } => {
                let what = match most.kind {
                    Kind::Memory => "memory",
                    Kind::Fft => "an accelerator fft",
                    Kind::Aes => "an accelerator aes",
                    Kind::Device => "a device",
                };
                match (most.kind, most.amount) {
                    (_, 0) => write!(f, "no other node has {what} to lend"),
                    (Kind::Memory, bytes) => write!(
                        f,
                        "no other node has so much to lend; the most is {bytes} bytes"
                    ),
                    _ => write!(f, "no other node has {what} that nobody shares; share one"),
                }
            }
            NotLent::TooMany => f.write_str("there are as many loans as may be; give some back"),
            NotLent::NoDisk => f.write_str(
                "the monitor's disk (or etcd) is full, and what is lent must be written down; make \
                 room",
            ),
            NotLent::AgentEnds => f.write_str("the agent of this machine is about to end"),
            NotLent::Plain => f.write_str(
                "the machine that would lend does not encrypt what is lent, and this one has an \
                 identity: let its agent do without --plain-network, or give this one's that, too",
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
    /// Its certificate is another node's.
    Name,
    /// It does not speak TLS, and the monitor nothing else.
    Plain,
    /// It is another monitor that lends now.
    NotLeading,
}

impl fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TurnedAway::Version => "its version of the messages is another; run the same release",
            TurnedAway::Secret => "the shared secret is another; compare the files of --key-file",
            TurnedAway::NameTaken => "another node of this name is there; say another --name",
            TurnedAway::TooMany => "the monitor has as many nodes as it takes",
            TurnedAway::Name => {
                "its certificate is of another node; say the --name that its token was for"
            }
            TurnedAway::Plain => {
                "the monitor speaks TLS: say --identity DIR instead of --key-file, after \
                 `rhythm venice join --identity DIR`"
            }
            TurnedAway::NotLeading => "the monitor is a spare, and another one leads",
        })
    }
}

impl TurnedAway {
    const ALL: [TurnedAway; 7] = [
        TurnedAway::Version,
        TurnedAway::Secret,
        TurnedAway::NameTaken,
        TurnedAway::TooMany,
        TurnedAway::Name,
        TurnedAway::Plain,
        TurnedAway::NotLeading,
    ];

    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.push(self as u8);
    }

    pub(super) fn take(taker: &mut Taker<'_>) -> Option<TurnedAway> {
        TurnedAway::ALL.get(usize::from(taker.u8()?)).copied()
    }
}
