//! Remote NICs: IP over QPair (the paper's section 5.2.3).
//!
//! A borrower has an interface (a TAP, `tap.rs`) whose frames go over a QPair to a donor, which has
//! one, too, for each borrower, and whose kernel sends them on: routed, or by a bridge, out of its
//! real interface. Both ends do the same between their TAP and the QPair (`relay.rs`), in the form
//! of `frames.rs`. With offload, frames are as large as 64 KiB on the way and have no checksums:
//! the donor's kernel or interface does that at the end.
//!
//! What is made goes with the process that made it, also where that is killed: an interface goes
//! with its descriptor, and with it go its addresses, its routes, its settings and its place in a
//! bridge. What belongs to none of them, a rule for address translation, is taken back by a process
//! that waits for this one's end (`masquerade.rs`).
//!
//! Addresses and routes are set by the program `ip` (`ip.rs`): six calls when a loan begins, in
//! words that everybody who looks after networks reads.

pub mod borrower;
pub mod donor;
mod error;
mod figures;
mod frames;
mod ip;
mod masquerade;
pub mod network;
mod relay;
mod stop;
mod tap;

pub use error::NicError;
pub use figures::Counted;
pub use stop::Stop;
