//! Devices: where stages run, and the executors that run programs on them.
//!
//! Every executor gives the bytes the reference, [`scalar`](scalar::ScalarExecutor), gives: one
//! conformance suite runs on all.

mod choices;
pub mod conformance;
pub mod cost;
mod executor;
mod formatting;
pub mod functions;
pub mod host;
mod limits;
mod parts;
pub mod scalar;

pub use executor::{Executor, Refusal, Work};
pub(crate) use formatting::not_of_dates;
pub use limits::{FOLD_BYTES_MAX, LaneLimits};
pub(crate) use parts::PLACE_LENGTH;
