//! Cohorts on a device of another machine: front ends without a GPU use one that has it (the
//! distributed pipeline of *Rhythm*, ASPLOS 2014, section 7; remote accelerators of *Venice*, HPCA
//! 2016, section 5.2.2).
//!
//! ```text
//!     front end: Remote, a DeviceLink of each worker         node: Node, a server of its own
//!     cohorts --> columns of active lanes --------TCP------> cohort of those lanes --> executor
//!     cohorts <-- runs, queries, headers <------------------ what became of them <----+
//! ```
//!
//! - `wire`: bytes and messages, without I/O;
//! - [`Bundle`]: a service's sources, which a node compiles itself;
//! - [`Remote`]: the way of a worker to its nodes, with the executor that runs what they do not;
//! - [`Places`]: where nodes are, as flags say or, by [`borrow_nodes`], venice's monitor;
//! - [`Figures`]: what becomes of cohorts;
//! - [`Node`]: what lends an executor;
//! - [`Alone`]: the way to a node for who has no event loop: checks and tests.
#![forbid(unsafe_code)]

mod alone;
mod borrowed;
mod bundle;
mod figures;
mod link;
mod node;
mod places;
mod wire;

pub use alone::Alone;
pub use borrowed::{BorrowOptions, borrow_nodes};
pub use bundle::{Bundle, Bundles, StageMax};
pub use figures::Figures;
pub use link::{LinkOptions, Remote};
pub use node::{Access, ExecutorFactory, Node, NodeError, NodeOptions};
pub use places::{Place, Places};
