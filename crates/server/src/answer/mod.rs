//! Answers: heads, bodies and errors.

pub(crate) mod hosted;
pub(crate) mod lengths;
mod refusals;
pub(crate) mod responder;
pub(crate) mod response;
pub(crate) mod sessions;
