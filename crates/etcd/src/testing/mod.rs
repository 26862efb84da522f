//! For tests: what stands for etcd, and etcd itself. Compiled with the feature `testing` alone,
//! which only tests ask for; all of it panics where something is not as a test needs it.
//!
//! - [`Model`] is what etcd knows, and how that changes: a simulator decides how requests go.
//! - [`Memory`] is a [`Store`](crate::Store) over one, for who needs no more.
//! - [`Members`] are servers of etcd, as processes.

mod members;
mod memory;
mod model;

pub use members::{Members, free_places};
pub use memory::{Fate, Memory};
pub use model::Model;
