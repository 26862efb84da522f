//! Tests of pools that need another side.

mod driver;
mod faults;
mod greeting;
mod schedule;
mod shares;
mod tagged;
pub(super) mod world;
