//! Flight: cohorts from their first lane to their last answer.
//!
//! ```text
//!    former     which is launched when                       former.rs
//!      v  full / timeout / idle / drain
//!    heavy      pages that have their turn after the others  heavy.rs
//!      v
//!    device     stages, over a link to what runs them        device.rs, link.rs
//!      v  ^
//!    backends   queries of a stage, answers, stragglers      backends.rs, stragglers.rs
//! ```
//!
//! What they work on is in cohorts.rs: the contexts, and what is known of each cohort besides its
//! columns. Who asks is in asker.rs; what a store of sessions is told beside is in telling.rs;
//! where the time went, in timeline.rs. No part calls another: the pipeline takes what one gives
//! and hands it on.

pub(crate) mod asker;
pub(crate) mod backends;
pub(crate) mod cohorts;
pub(crate) mod device;
pub(crate) mod former;
pub(crate) mod heavy;
pub(crate) mod lane_requests;
pub(crate) mod link;
mod pending_query;
mod stragglers;
pub(crate) mod telling;
pub(crate) mod timeline;
mod together;
