//! The Rhythm server: the cohort pipeline and what drives it.
#![forbid(unsafe_code)]

pub mod backend;
