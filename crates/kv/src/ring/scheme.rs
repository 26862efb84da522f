//! How copies are kept: which node writes what, and which reads.
//!
//! ```text
//!   ring      every node is the first of a range of its own; it writes and reads that alone
//!   primary   all keys are one range: its first node writes all, and its copies read, too
//!   chain     as a ring, but writes go from one node to the next, and the last of them reads
//! ```
//!
//! Whether copies of a ring or a primary are read can be said otherwise ([`Elsewhere`]).

use super::members::Member;
use super::placement::{Placement, SLOTS};
use super::roster::Roster;
use std::collections::BTreeMap;

/// What becomes of a `get` of a key that another node serves. All nodes do the same. All else is
/// passed on in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elsewhere {
    /// It is passed on to that node.
    #[default]
    Forward,
    /// It is answered from a copy that is complete, if there is one here.
    Serve,
}

impl Elsewhere {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Elsewhere::Forward => "forward",
            Elsewhere::Serve => "serve",
        }
    }
}

/// See the head of this file. All nodes follow the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Each key's node writes and reads it, and the next ones round the ring have copies (the
    /// microservers' paper, section 2).
    #[default]
    Ring,
    /// Primary-backup: one node only replicates writes to others, and clients read from these (the
    /// same, section 3).
    Primary,
    /// Chain replication: each key's node writes it, and the last of those with copies reads it.
    Chain,
}

impl Scheme {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Ring => "ring",
            Scheme::Primary => "primary",
            Scheme::Chain => "chain",
        }
    }

    /// What becomes of reads of what another node serves, unless it is said. Of a chain the last
    /// node answers them, and no other copy.
    pub fn elsewhere(self) -> Elsewhere {
        match self {
            Scheme::Ring | Scheme::Chain => Elsewhere::Forward,
            Scheme::Primary => Elsewhere::Serve,
        }
    }

    /// Whether writes go from one node to the next, and only the last of them reads.
    pub(crate) fn is_chain(self) -> bool {
        self == Scheme::Chain
    }

    /// Whether each node has a range of its own, as far as nodes stay.
    pub(crate) fn has_own_ranges(self) -> bool {
        self != Scheme::Primary
    }

    /// Which key is in which range, among nodes that stay.
    pub fn placement<'a>(self, nodes: impl IntoIterator<Item = (&'a str, u16)>) -> Placement {
        match self {
            Scheme::Ring | Scheme::Chain => Placement::new(nodes),
            Scheme::Primary => Placement::whole(),
        }
    }

    /// The same, among nodes that come and go.
    pub fn slots(self) -> Placement {
        match self {
            Scheme::Ring | Scheme::Chain => Placement::slots(),
            Scheme::Primary => Placement::whole(),
        }
    }

    /// Who is to serve what, of so many nodes that stay.
    pub fn round(self, nodes: usize) -> Roster {
        match self {
            Scheme::Ring | Scheme::Chain => Roster::round(nodes, nodes),
            Scheme::Primary => Roster::round(nodes, 1),
        }
    }

    /// Who is to serve what, of nodes that come and go.
    pub(crate) fn ranked(self, members: &BTreeMap<usize, Member>) -> Roster {
        let names = members.iter();
        let names = names.map(|(number, member)| (*number, member.name.as_str()));
        Roster::ranked(
            names,
            match self {
                Scheme::Ring | Scheme::Chain => SLOTS,
                Scheme::Primary => 1,
            },
        )
    }
}
