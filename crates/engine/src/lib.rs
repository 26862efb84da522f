//! Cohorts and the programs run over them; no sockets, no clock.
//!
//! In the order of the flow, from page files to answers:
//!
//! - [`source`]: the files of a service, read; mistakes are [`diagnostic`]s, what `service.toml`
//!   sets is [`settings`], which backends there can be [`kind`];
//! - [`compile`]: from sources to programs;
//! - [`program`]: what a page is compiled to;
//! - [`cohort`]: columns, lanes, queries to backends and their rows, output;
//! - [`session`]: the session array;
//! - [`device`]: executors that run programs over cohorts.
#![forbid(unsafe_code)]

pub mod cohort;
pub mod compile;
pub mod device;
pub mod diagnostic;
pub mod kind;
pub mod program;
#[cfg(any(test, feature = "reference"))]
pub mod reference;
pub mod session;
pub mod settings;
pub mod source;
mod zone;
