//! The device's session array does what the engine's does.

mod device;
mod host;
mod races;
mod rules;
#[path = "../typed/mod.rs"]
mod typed;
