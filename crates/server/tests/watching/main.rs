//! What is told of single requests: slow ones, their ids, traces.

mod collector;
#[path = "../common/mod.rs"]
mod common;
mod ids;
mod lines;
mod servers;
mod slow;
mod spans;
