//! A cohort in the device's memory, and the launches that take it through a stage and to its
//! answers.
//!
//! - [`room`]: how much memory each lane gets, and how that grows;
//! - [`regions`]: the lanes' shares in one buffer;
//! - [`stages`]: decoding answers, running a program, answering on the device;
//! - [`bodies`]: bodies from runs and fragments, row by row or in columns;
//! - [`delivery`]: what else leaves the device, one lane's behind the other's.
//!
//! Whoever owns the memory (a slot of the executor, or the resident pipeline) borrows it to a
//! [`DeviceCohort`](stages::DeviceCohort); the kernels' arguments are put together here, once for
//! both.

pub(crate) mod bodies;
pub(crate) mod delivery;
pub(crate) mod regions;
pub(crate) mod room;
pub(crate) mod stages;
