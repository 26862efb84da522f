//! Tests of the remote backend that need another side.

mod driver;
pub(super) mod fake;
mod faults;
mod schedule;
mod world;
