//! Tests of pools that need another side.

mod asking;
mod driver;
mod faults;
mod few_hang;
mod greeting;
mod overload;
mod reaching;
mod schedule;
mod shares;
mod slow_calls;
mod spreading;
mod tagged;
pub(super) mod world;
