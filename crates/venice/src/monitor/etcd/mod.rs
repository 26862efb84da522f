//! A state in etcd that several monitors share: one of them leads, and keeps it there; when it is
//! gone, another takes over.
//!
//! ```text
//!   PREFIX/leader         {"agents", "admin", "trusted"}: the one that leads, under its lease
//!   PREFIX/head           {"turn", "last"}: how often something was kept; the last loan's number
//!   PREFIX/loans/NUMBER   {"lender", "borrower", "kind", "bytes" or "shares", "since", "stands"}
//! ```
//!
//! - [`Election`] is how a monitor comes to lead and stays there: without a clock of its own or a
//!   thread, so that it goes into a simulator; [`Candidate`] is its thread.
//! - [`Keeping`] is the keeper of the one that leads.
//!
//! Both ask a [`Store`](rhythm_etcd::Store): etcd, or a model of it.
//!
//! # Why nothing is lent twice
//!
//! What is kept is kept by one transaction, which compares that the key of the leader is under the
//! lease of who asks. Nobody else's lease is ever the same, so once another leads, whatever its
//! predecessor asks for changes nothing, however late it comes: it was stopped, or its request lay
//! somewhere. And nobody is told of what is not kept (`keeper.rs`).
//!
//! A transaction that is not answered may have been done, or may be done yet. So each compares the
//! head, and counts it on: done twice it would find another head, and who asks again sees by the
//! head whether it was done. One that was refused counts, too: the same head never stands for two
//! things.
//!
//! A monitor knows that it does not lead before etcd lets another one: its lease is a
//! [`HeldLease`](rhythm_etcd::HeldLease).

mod candidate;
mod election;
mod keeping;
mod loading;
mod rows;
mod term;

pub use candidate::{Candidate, News};
pub use election::{Election, Standing};
pub use keeping::Keeping;
pub use loading::{LoadError, Loaded};
pub use rows::{Place, Trusted};
pub use term::Term;

#[cfg(test)]
mod tests;
