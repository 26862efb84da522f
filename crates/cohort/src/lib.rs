//! Cohorts, whatever they hold: work of one kind that is executed together.
//!
//! - [`Pool`]: a fixed number of cohort contexts, and where each stands;
//! - [`Formation`]: when a cohort in formation is launched.
//!
//! What the lanes of a cohort are is its owner's matter, and so is what they have in common (the
//! pool's key). There is no clock here: whoever has one says the time.
#![forbid(unsafe_code)]

mod formation;
mod pool;

pub use formation::{Circumstances, Formation, LaunchReason, Policy};
pub use pool::{ContextId, ContextState, Pool};
