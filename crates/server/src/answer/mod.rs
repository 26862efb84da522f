//! Answers: heads, bodies and errors.

pub(crate) mod held;
pub(crate) mod hosted;
mod refusals;
pub(crate) mod responder;
pub(crate) mod response;
pub(crate) mod sessions;
pub(crate) mod slow;
mod watch;
