//! Intake: from bytes of a connection to a lane of a cohort, or to the host path.
//!
//! `rhythm_http` finds whole requests, dispatch.rs decides which way they go (origin.rs and
//! csrf.rs: whether other sites have them sent; https.rs: whether they are to come by TLS), and
//! parser.rs reads what they mean (params.rs: into a lane's columns). `pipeline/lanes.rs` joins
//! them.

pub(crate) mod csrf;
pub(crate) mod dispatch;
pub(crate) mod https;
pub(crate) mod origin;
pub(crate) mod params;
pub(crate) mod parser;
mod scratch;
