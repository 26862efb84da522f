//! Replication: nodes stand in a ring, and what one serves its successors have, too.
//!
//! ```text
//!   workers -- keys that a turn wrote --> Node -- what they have now --> the next R nodes
//!      ^                                   |  ^                              |
//!      +------- routes, released -- View <-+  +-------- acknowledged --------+
//! ```
//!
//! Which node a key belongs to says [`placement`]: the keys of a node are its range. A range is
//! *served* by one node, in the best case its own, else the next round the ring that has it
//! complete; which one it is nodes tell each other in claims, of which the highest epoch counts.
//! What it serves a node sends to the next R nodes round the ring (`link` has it come in order,
//! and once), and a node that begins to get a range is sent all of it, while clients go on.
//!
//! - [`node`] is what a node knows of the ring and does: without I/O, the time an argument.
//! - [`ether`] brings frames to other nodes where no TCP does.
//! - [`wire`] has the frames, `local` the store as replication sees it.
//! - [`Membership`] says who is in the ring.
//! - [`view`] is what workers see: who serves a key, and whether they may write.
//!
//! Nodes that cannot hear each other take each other for dead, and each side serves all: a static
//! ring has no protection from that. When they meet again, of two that serve a range the higher
//! claim wins.

pub mod ether;
mod link;
mod local;
mod members;
pub mod node;
pub mod placement;
pub mod view;
pub mod wire;
mod written;

pub use local::Local;
pub use members::{Member, Membership, Transport};
pub use node::{Effects, Execute, Node, Options, Ticket};
pub use placement::Placement;
pub use view::{RangeStatus, Status, View};
pub use written::Written;

/// The most nodes of a ring: sets of them are words.
pub const NODES_MAX: usize = 64;
