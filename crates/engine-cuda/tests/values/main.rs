//! The kernels' functions on single values give what the reference's give, over many values and
//! under three orders of the lanes.
//!
//! - `batch`: calls of functions, launched together and compared;
//! - `texts`, `numbers`: what they are called with.
#![allow(unsafe_code)]

mod batch;
mod numbers;
mod texts;
