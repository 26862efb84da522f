//! Flight: cohorts through their stages, on devices and to backends, and the requests they carry.

pub(crate) mod process;
pub(crate) mod request;
