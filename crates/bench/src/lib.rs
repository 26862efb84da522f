//! placeholder

pub mod limit;
