//! What can be observed: figures and the access log.

pub mod access_log;
pub mod metrics;
