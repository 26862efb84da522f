//! Answers: heads, bodies and errors.

pub(crate) mod held;
pub(crate) mod hosted;
pub(crate) mod passed_on;
pub(crate) mod refusals;
pub(crate) mod responder;
pub(crate) mod response;
pub(crate) mod sending;
pub(crate) mod sessions;
pub(crate) mod slow;
mod watch;
