//! What is told of single requests: slow ones, their ids, traces.

#[path = "../common/mod.rs"]
mod common;
mod lines;
mod slow;
