//! The host path: what is answered without a cohort.

pub(crate) mod admin;
pub(crate) mod challenges;
mod config;
mod dashboard;
pub(crate) mod disk;
pub(crate) mod files;
pub(crate) mod site_answer;
pub(crate) mod statics;
