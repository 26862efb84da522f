//! Intake: from bytes of a connection to a lane of a cohort, or to the host path.
//!
//! `rhythm_http` finds whole requests, dispatch.rs decides which way they go, and parser.rs reads
//! what they mean (params.rs: into a lane's columns). lanes.rs is all of it: a request becomes a
//! lane, or is another's matter, or has to wait.

pub(crate) mod dispatch;
pub(crate) mod lanes;
pub(crate) mod origin;
pub(crate) mod params;
pub(crate) mod parser;
