//! Cohorts and the programs run over them; no sockets, no clock.
//!
//! - [`cohort`]: columns, lanes, the pool and when a cohort is launched;
//! - [`session`]: the session array;
//! - [`page`]: from page files to programs;
//! - [`device`]: executors that run programs.

pub mod cohort;
pub mod device;
pub mod page;
pub mod session;
