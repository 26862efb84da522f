//! Intake: from bytes of a connection to a lane of a cohort, or to the host path.

pub(crate) mod dispatch;
pub(crate) mod params;
pub(crate) mod parser;
mod reader;
