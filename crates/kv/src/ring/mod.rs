//! Replication: nodes stand in a ring, and what one serves its successors have, too.
//!
//! ```text
//!   workers -- keys that a turn wrote --> Node -- what they have now --> the next R nodes
//!      ^                                   |  ^                              |
//!      +------- routes, released -- View <-+  +-------- acknowledged --------+
//! ```
//!
//! Which range a key is in says [`placement`], and in which order nodes are to serve a range the
//! [`Roster`]. A range is *served* by one node, in the best case the first of them, else the next
//! that has it complete; which one it is nodes tell each other in claims, of which the highest
//! epoch counts. What it serves a node sends to the R nodes that come next (`link` has it come in
//! order, and once), and a node that begins to get a range is sent all of it, while clients go on.
//! A node that leaves stands behind all others: its ranges are handed to those before it.
//!
//! Other ways to keep copies ([`Scheme`]) are the same with other ranges, or other ways of what is
//! written: one node that writes all keys, and others that have copies and may be read; chains.
//!
//! - [`node`] is what a node knows of the ring and does: without I/O, the time an argument.
//! - [`ether`] brings frames to other nodes where no TCP does.
//! - [`wire`] has the frames, `local` the store as replication sees it.
//! - [`Member`] is a node as others know it; who is in the ring says [`crate::membership`].
//! - [`view`] is what workers see: who serves a key, and whether they may write.
//!
//! Nodes that cannot hear each other take each other for dead, and each side serves all: a ring
//! whose nodes are in a file has no protection from that. When they meet again, of two that serve a
//! range the higher claim wins. Where nodes have leases ([`crate::registration`]), nobody takes
//! what one with a lease serves, and one without writes nothing.

pub mod ether;
mod link;
mod local;
mod members;
pub mod node;
pub mod placement;
mod road;
mod roster;
mod scheme;
mod terms;
mod ticket;
pub mod view;
pub mod wire;
mod written;

pub use local::Local;
pub(crate) use local::cas_ids;
pub use members::{Lease, Member};
pub use node::{Effects, Execute, Node, Options, SESSIONS, Unanswered};
pub use placement::Placement;
pub use road::Road;
pub use roster::Roster;
pub use scheme::{Elsewhere, Scheme};
pub use terms::Terms;
pub use ticket::Ticket;
pub use view::{NodeStatus, RangeStatus, Status, View};
pub use wire::VERSION as PROTOCOL;
pub use written::Written;

/// The most nodes of a ring: sets of them are words.
pub const NODES_MAX: usize = 64;
