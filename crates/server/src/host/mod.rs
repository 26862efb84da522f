//! The host path: what is answered without a cohort.

pub(crate) mod admin;
pub(crate) mod statics;
